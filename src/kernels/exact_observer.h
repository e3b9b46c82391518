// Proves that operations do not round.
#pragma once

#include <stdexcept>

#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// An operation rounded although the job was declared exact.
class InexactOperation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Clears and tests the FPU's inexact flag around each operation and throws InexactOperation naming
/// it when a rounding happened. round_to_grid is exempt (the one declared rounding);
/// average_into_bucket is exact when multiplying back gives the gradient; 16-bit results of fill, copy
/// and reduce, which are rounded without the FPU, are compared with what was to be stored. Exactness
/// is proved this way, never assumed.
class ExactObserver final : public KernelObserver {
 public:
  void around(const KernelCall& call, KernelRun run) override;
};

}  // namespace lockstep
