// Which choices of a sketch go together.
#pragma once

#include "lockstep/harness/explore/jobs/job_sketch.h"

namespace lockstep::detail {

/// Changes choices that exclude one another until the sketch is a correct job.
void repair(JobSketch& sketch);

}  // namespace lockstep::detail
