// The kernels on the CPU, and the decorator that proves exactness.
#pragma once

#include <memory>
#include <stdexcept>

#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// Kernels on host memory: Eigen for matrix products of real size, our own fixed-order loops for
/// everything else. One instance may serve all ranks of a world: what it keeps are pinned cache
/// sizes and the signs of sketches.
std::unique_ptr<Kernels> make_cpu_kernels();

/// An operation rounded although the job was declared exact.
class InexactOperation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Wraps `inner`: clears and tests the FPU's inexact flag around each operation and throws
/// InexactOperation naming it when a rounding happened. round_to_grid is exempt (the one declared
/// rounding); average_into_bucket is exact when multiplying back gives the gradient; digests and
/// sketches are observers and exempt. Exactness is proved this way, never assumed.
///
/// Requires: inner outlives the result.
std::unique_ptr<Kernels> make_exact_kernels(Kernels& inner);

/// Wraps `inner`: reports to the InFlight of the operands' runtime which memory each operation is
/// about to read and write. What groups do to raw memory (`reduce`) and observers (digests,
/// sketches) are not the program, and exempt.
///
/// Requires: inner outlives the result.
std::unique_ptr<Kernels> make_watching_kernels(Kernels& inner);

}  // namespace lockstep
