// The bugs a scenario can plant in a healthy loop. Each is a hook on the loop; nothing below this
// room knows that bugs exist.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// Where a kind of bug strikes, and how to make it.
struct BugTraits {
  BugKind kind = BugKind::kThrow;
  LoopPoint event = LoopPoint::kStep;  ///< Where it strikes by default...
  bool after = false;                  ///< ...and on which side.
  std::unique_ptr<LoopHook> (*make)(const BugSpec& spec) = nullptr;
};

const BugTraits& traits_of(BugKind kind);

/// Hooks of the bugs that strike on `rank`.
std::vector<std::unique_ptr<LoopHook>> make_bugs(const std::vector<BugSpec>& bugs,
                                                 std::int32_t rank);

// -- the families
std::unique_ptr<LoopHook> make_write_tensor(const BugSpec& spec);
std::unique_ptr<LoopHook> make_flip_bit(const BugSpec& spec);
std::unique_ptr<LoopHook> make_scale_gradient(const BugSpec& spec);
std::unique_ptr<LoopHook> make_zero_missing_gradients(const BugSpec& spec);
std::unique_ptr<LoopHook> make_bypass_wrapper(const BugSpec& spec);
std::unique_ptr<LoopHook> make_no_set_epoch(const BugSpec& spec);
std::unique_ptr<LoopHook> make_skip_step(const BugSpec& spec);
std::unique_ptr<LoopHook> make_throw(const BugSpec& spec);
std::unique_ptr<LoopHook> make_extra_collective(const BugSpec& spec);

/// A hook that acts once the loop reaches the place its declaration names.
class PlacedBug : public LoopHook {
 public:
  explicit PlacedBug(const BugSpec& spec);
  void before(LoopPoint point, LoopState& state) final;
  void after(LoopPoint point, LoopState& state) final;

 protected:
  virtual void strike(LoopState& state) = 0;

  const BugSpec& spec() const { return spec_; }

 private:
  bool is_here(LoopPoint point, bool after, const LoopState& state) const;

  BugSpec spec_;
  LoopPoint point_;
};

}  // namespace lockstep
