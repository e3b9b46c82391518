// The table of bug kinds, and the part all of them share: waiting for their place in the loop.
#include <array>

#include "lockstep/harness/bugs/bug.h"

namespace lockstep {
namespace {

// By BugKind. An explicit table: a linker drops objects that register themselves.
constexpr std::array<BugTraits, kWords<BugKind>.size()> kTraits = {{
    {BugKind::kBypassWrapper, LoopPoint::kForward, false, make_bypass_wrapper},
    {BugKind::kExtraCollective, LoopPoint::kStep, true, make_extra_collective},
    {BugKind::kFlipBit, LoopPoint::kBackward, false, make_flip_bit},
    {BugKind::kNoSetEpoch, LoopPoint::kEpoch, false, make_no_set_epoch},
    {BugKind::kScaleGradient, LoopPoint::kBackward, true, make_scale_gradient},
    {BugKind::kSkipStep, LoopPoint::kStep, false, make_skip_step},
    {BugKind::kThrow, LoopPoint::kStep, false, make_throw},
    {BugKind::kWriteTensor, LoopPoint::kStep, true, make_write_tensor},
    {BugKind::kZeroMissingGradients, LoopPoint::kStep, false, make_zero_missing_gradients},
}};

constexpr bool is_in_order() {
  for (const BugKind kind : every<BugKind>()) {
    if (kTraits[static_cast<std::size_t>(kind)].kind != kind) return false;
  }
  return true;
}

static_assert(is_in_order());

}  // namespace

const BugTraits& traits_of(BugKind kind) { return kTraits[static_cast<std::size_t>(kind)]; }

std::vector<std::unique_ptr<LoopHook>> make_bugs(const std::vector<BugSpec>& bugs,
                                                 std::int32_t rank) {
  std::vector<std::unique_ptr<LoopHook>> hooks;
  for (const BugSpec& bug : bugs) {
    if (bug.ranks.contains(rank)) hooks.push_back(traits_of(bug.kind).make(bug));
  }
  return hooks;
}

PlacedBug::PlacedBug(const BugSpec& spec) : spec_(spec), point_(spec.at.event) {}

bool PlacedBug::is_here(LoopPoint point, bool after, const LoopState& state) const {
  return point == point_ && after == spec_.at.after &&
         (!spec_.at.step || *spec_.at.step == state.step) &&
         (!spec_.at.micro || *spec_.at.micro == state.micro);
}

void PlacedBug::before(LoopPoint point, LoopState& state) {
  if (is_here(point, false, state)) strike(state);
}

void PlacedBug::after(LoopPoint point, LoopState& state) {
  if (is_here(point, true, state)) strike(state);
}

}  // namespace lockstep
