// The table of bug kinds, and the part all of them share: waiting for their place in the loop.
#include <array>

#include "lockstep/base/check.h"
#include "lockstep/harness/bugs/bug.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 0> kNoKeys = {};
constexpr std::array<std::string_view, 2> kCollectiveKeys = {"op", "site"};
constexpr std::array<std::string_view, 3> kFlipKeys = {"tensor", "element", "bit"};
constexpr std::array<std::string_view, 2> kScaleKeys = {"tensor", "factor"};
constexpr std::array<std::string_view, 1> kTensorKeys = {"tensor"};
constexpr std::array<std::string_view, 1> kThrowKeys = {"message"};
constexpr std::array<std::string_view, 4> kWriteKeys = {"tensor", "part", "element", "value"};

// In alphabetical order. An explicit table: a linker drops objects that register themselves.
constexpr std::array<BugKind, 9> kKinds = {{
    {"bypass-wrapper", kNoKeys, "forward", false, false, make_bypass_wrapper},
    {"extra-collective", kCollectiveKeys, "step", true, false, make_extra_collective},
    {"flip-bit", kFlipKeys, "backward", false, true, make_flip_bit},
    {"no-set-epoch", kNoKeys, "epoch", false, false, make_no_set_epoch},
    {"scale-gradient", kScaleKeys, "backward", true, false, make_scale_gradient},
    {"skip-step", kNoKeys, "step", false, false, make_skip_step},
    {"throw", kThrowKeys, "step", false, false, make_throw},
    {"write-tensor", kWriteKeys, "step", true, true, make_write_tensor},
    {"zero-missing-gradients", kTensorKeys, "step", false, false, make_zero_missing_gradients},
}};

struct PlaceName {
  std::string_view name;
  LoopPoint point;
};

constexpr std::array<PlaceName, 8> kPlaces = {{{"wrap", LoopPoint::kWrap},
                                               {"epoch", LoopPoint::kEpoch},
                                               {"forward", LoopPoint::kForward},
                                               {"backward", LoopPoint::kBackward},
                                               {"step", LoopPoint::kStep},
                                               {"zero-grad", LoopPoint::kZeroGrad},
                                               {"eval", LoopPoint::kEval},
                                               {"end", LoopPoint::kEnd}}};

LoopPoint point_named(std::string_view name) {
  for (const PlaceName& place : kPlaces) {
    if (place.name == name) return place.point;
  }
  LOCKSTEP_CHECK(false, "no place '" + std::string(name) + "' in the loop");
  return LoopPoint::kStep;
}

}  // namespace

const BugKind* find_bug(std::string_view name) {
  for (const BugKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string_view> bug_names() {
  std::vector<std::string_view> names;
  names.reserve(kKinds.size());
  for (const BugKind& kind : kKinds) names.push_back(kind.name);
  return names;
}

std::vector<std::unique_ptr<LoopHook>> make_bugs(const std::vector<BugSpec>& bugs,
                                                 std::int32_t rank) {
  std::vector<std::unique_ptr<LoopHook>> hooks;
  for (const BugSpec& bug : bugs) {
    if (bug.ranks.contains(rank)) hooks.push_back(find_bug(bug.kind)->make(bug));
  }
  return hooks;
}

PlacedBug::PlacedBug(const BugSpec& spec) : spec_(spec), point_(point_named(spec.at.event)) {}

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
