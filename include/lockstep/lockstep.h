// The front door of an installed Lockstep: run_ranks, the library under it, and what it reports.
#pragma once

#include "lockstep/run.h"
