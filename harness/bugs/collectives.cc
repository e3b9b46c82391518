// Bugs of communication: a rank enters a collective that the others do not know of.
#include <array>

#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/scenario/call_sites.h"

namespace lockstep {
namespace {

class ExtraCollective final : public PlacedBug {
  using PlacedBug::PlacedBug;

  void strike(LoopState& state) override {
    ProcessGroup& world = state.context->world();
    const OpOptions options = {.async = false,
                               .site = intern_site(state.context->runtime(), spec().site)};
    if (spec().op == CollectiveOp::kAllReduce) {
      std::array<float, 1> one = {1.0F};
      world.all_reduce(Memory::of(std::span<float>(one)), ReduceOp::kSum, options).wait_or_throw();
    } else {
      world.barrier(options).wait_or_throw();
    }
  }
};

}  // namespace

std::unique_ptr<LoopHook> make_extra_collective(const BugSpec& spec) {
  return std::make_unique<ExtraCollective>(spec);
}

}  // namespace lockstep
