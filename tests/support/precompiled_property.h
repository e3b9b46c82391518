// The same for property tests, which take RapidCheck besides.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/support/precompiled.h"
