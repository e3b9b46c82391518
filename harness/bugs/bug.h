// The bugs a scenario can plant in a healthy loop. Each is a hook on the loop; nothing below this
// room knows that bugs exist.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/harness/scenario/bug_spec.h"

namespace lockstep {

/// Where a kind of bug strikes if it does not say: at which point of the loop, on which side.
struct BugTraits {
  BugKind kind = BugKind::kThrow;
  LoopPoint event = LoopPoint::kStep;
  bool after = false;
};

const BugTraits& traits_of(BugKind kind);

/// Hooks of the bugs that strike on `rank`.
std::vector<std::unique_ptr<LoopHook>> make_bugs(const std::vector<BugSpec>& bugs,
                                                 std::int32_t rank);

// -- one for each kind
std::unique_ptr<LoopHook> make_bug(const bug::BypassWrapper& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::ExtraCollective& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::FlipBit& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::NoSetEpoch& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::ScaleGradient& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::SkipStep& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::Throw& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::WriteTensor& what, const BugPlace& at);
std::unique_ptr<LoopHook> make_bug(const bug::ZeroMissingGradients& what, const BugPlace& at);

/// A hook that acts once the loop reaches the place its declaration names.
class PlacedBug : public LoopHook {
 public:
  explicit PlacedBug(const BugPlace& at) : at_(at) {}

  void before(LoopPoint point, LoopState& state) final;
  void after(LoopPoint point, LoopState& state) final;

 protected:
  virtual void strike(LoopState& state) = 0;

 private:
  bool is_here(LoopPoint point, bool after, const LoopState& state) const;

  BugPlace at_;
};

}  // namespace lockstep
