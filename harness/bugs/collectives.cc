// Bugs of communication: a rank enters a collective that the others do not know of.
#include <array>

#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/scenario/call_sites.h"

namespace lockstep {
namespace {

class ExtraCollective final : public PlacedBug {
 public:
  ExtraCollective(const bug::ExtraCollective& what, const BugPlace& at)
      : PlacedBug(at), what_(what) {}

 private:
  void strike(LoopState& state) override {
    ProcessGroup& world = state.context->world();
    const OpOptions options = {.async = false,
                               .site = intern_site(state.context->runtime(), what_.site)};
    if (what_.op == CollectiveOp::kAllReduce) {
      std::array<float, 1> one = {1.0F};
      world.all_reduce(Memory::of(std::span<float>(one)), ReduceOp::kSum, options).wait_or_throw();
    } else {
      world.barrier(options).wait_or_throw();
    }
  }

  bug::ExtraCollective what_;
};

}  // namespace

std::unique_ptr<LoopHook> make_bug(const bug::ExtraCollective& what, const BugPlace& at) {
  return std::make_unique<ExtraCollective>(what, at);
}

}  // namespace lockstep
