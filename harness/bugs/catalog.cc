// The table of bug kinds, and the part all of them share: waiting for their place in the loop.
#include <array>
#include <variant>

#include "lockstep/harness/bugs/bug.h"

namespace lockstep {
namespace {

// By BugKind. An explicit table: a linker drops objects that register themselves.
constexpr std::array<BugTraits, kEnumNames<BugKind>.size()> kTraits = {{
    {BugKind::kBypassWrapper, LoopPoint::kForward, false},
    {BugKind::kExtraCollective, LoopPoint::kStep, true},
    {BugKind::kFlipBit, LoopPoint::kBackward, false},
    {BugKind::kNoSetEpoch, LoopPoint::kEpoch, false},
    {BugKind::kScaleGradient, LoopPoint::kBackward, true},
    {BugKind::kSkipStep, LoopPoint::kStep, false},
    {BugKind::kThrow, LoopPoint::kStep, false},
    {BugKind::kWriteTensor, LoopPoint::kStep, true},
    {BugKind::kZeroMissingGradients, LoopPoint::kStep, false},
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
    if (!bug.ranks.contains(rank)) continue;
    hooks.push_back(
        std::visit([&](const auto& what) { return make_bug(what, bug.at); }, bug.effect));
  }
  return hooks;
}

bool PlacedBug::is_here(LoopPoint point, bool after, const LoopState& state) const {
  return point == at_.event && after == at_.after && (!at_.step || *at_.step == state.step) &&
         (!at_.micro || *at_.micro == state.micro);
}

void PlacedBug::before(LoopPoint point, LoopState& state) {
  if (is_here(point, false, state)) strike(state);
}

void PlacedBug::after(LoopPoint point, LoopState& state) {
  if (is_here(point, true, state)) strike(state);
}

}  // namespace lockstep
