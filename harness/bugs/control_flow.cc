// Bugs of control flow: a rank takes a different path through the loop from the others.
#include <stdexcept>

#include "lockstep/harness/bugs/bug.h"

namespace lockstep {
namespace {

/// The forward calls the inner module: the reducer is never armed.
class BypassWrapper final : public PlacedBug {
  using PlacedBug::PlacedBug;

  void strike(LoopState& state) override { state.through_wrapper = false; }
};

/// The epoch never reaches the sampler, so every epoch has the order of epoch 0.
class NoSetEpoch final : public PlacedBug {
  using PlacedBug::PlacedBug;

  void strike(LoopState& state) override { state.sampler_epoch = 0; }
};

/// `continue` before the optimizer's step.
class SkipStep final : public PlacedBug {
  using PlacedBug::PlacedBug;

  void strike(LoopState& state) override { state.skip = true; }
};

class Throw final : public PlacedBug {
  using PlacedBug::PlacedBug;

  void strike(LoopState& /*state*/) override { throw std::runtime_error(spec().message); }
};

}  // namespace

std::unique_ptr<LoopHook> make_bypass_wrapper(const BugSpec& spec) {
  return std::make_unique<BypassWrapper>(spec);
}

std::unique_ptr<LoopHook> make_no_set_epoch(const BugSpec& spec) {
  return std::make_unique<NoSetEpoch>(spec);
}

std::unique_ptr<LoopHook> make_skip_step(const BugSpec& spec) {
  return std::make_unique<SkipStep>(spec);
}

std::unique_ptr<LoopHook> make_throw(const BugSpec& spec) { return std::make_unique<Throw>(spec); }

}  // namespace lockstep
