// The kernels on the CPU.
#pragma once

#include <memory>

#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// Kernels on host memory: Eigen for matrix products of real size, our own fixed-order loops for
/// everything else. One instance may serve all ranks of a world: what it keeps are pinned cache
/// sizes and the signs of sketches.
std::unique_ptr<Kernels> make_cpu_kernels();

}  // namespace lockstep
