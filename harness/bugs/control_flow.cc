// Bugs of control flow: a rank takes a different path through the loop from the others.
#include <stdexcept>
#include <string>

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
 public:
  Throw(const bug::Throw& what, const BugPlace& at) : PlacedBug(at), message_(what.message) {}

 private:
  void strike(LoopState& /*state*/) override { throw std::runtime_error(message_); }

  std::string message_;
};

}  // namespace

std::unique_ptr<LoopHook> make_bug(const bug::BypassWrapper& /*what*/, const BugPlace& at) {
  return std::make_unique<BypassWrapper>(at);
}

std::unique_ptr<LoopHook> make_bug(const bug::NoSetEpoch& /*what*/, const BugPlace& at) {
  return std::make_unique<NoSetEpoch>(at);
}

std::unique_ptr<LoopHook> make_bug(const bug::SkipStep& /*what*/, const BugPlace& at) {
  return std::make_unique<SkipStep>(at);
}

std::unique_ptr<LoopHook> make_bug(const bug::Throw& what, const BugPlace& at) {
  return std::make_unique<Throw>(what, at);
}

}  // namespace lockstep
