#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {
namespace {

RC_GTEST_PROP(ScheduleProperty, EveryScheduleSurvivesItsText, ()) {
  const auto numbers = *rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 4), rc::gen::arbitrary<std::uint64_t>()));
  std::vector<ActionId> picks(numbers.size());
  std::transform(numbers.begin(), numbers.end(), picks.begin(), [](std::uint64_t number) {
    return static_cast<ActionId>(number);
  });
  const auto decoded = decode_schedule(encode_schedule(picks));
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded.value() == picks);
}

}  // namespace
}  // namespace lockstep::sim
