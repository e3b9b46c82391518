// Reports which operations touch memory that a transfer owns.
#pragma once

#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// Reports to the InFlight of the operands' runtime which memory each operation is about to read and
/// write, and passes on in its ExchangeWatch what was computed from a collective's result. What groups
/// do to raw memory (`reduce`) is not the program, and has no operands.
class WatchingObserver final : public KernelObserver {
 public:
  void around(const KernelCall& call, KernelRun run) override;
};

}  // namespace lockstep
