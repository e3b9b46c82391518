// gradient-mean's advice on ranks that stop contributing, on reductions written by hand.
#include "lockstep/laws/rules/detail/mean/ended_contributions.h"

#include <array>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Reductions of two tensors, one per step. Each rank's word says what it contributes: 'b'oth, only the 'f'irst,
/// only the 's'econd or 'n'one; a step that a rank is not part of is '-'.
std::vector<Advice> advised(const std::vector<std::string>& of_ranks) {
  NameTable names;
  const std::array<NameId, 2> layout = {names.intern("first"), names.intern("second")};
  AlignmentKey alignment;
  alignment.wrapper = {0, 0};
  alignment.layout = static_cast<std::uint32_t>(names.intern_layout(layout));
  EndedContributions ended;
  for (std::size_t step = 0; step < of_ranks.front().size(); ++step) {
    OpenReduction open;
    open.opt = static_cast<std::int32_t>(step);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const char what = of_ranks[rank][step];
      if (what == '-') continue;
      const std::uint8_t missing = what == 'b' ? 0 : what == 'f' ? 2 : what == 's' ? 1 : 3;
      const std::array<std::uint64_t, 2> digests = {1, 2};
      const std::array<Sketch, 2> sketches = {};
      const std::array<std::int64_t, 2> n_elems = {1, 1};
      const std::array<std::uint8_t, 1> undefined = {missing};
      open.add(
          GradEvent{
              .digests = digests, .sketches = sketches, .n_elems = n_elems, .undefined = undefined},
          Local{.rank = static_cast<std::int32_t>(rank)});
    }
    ended.on_reduction(alignment, open);
  }
  return ended.advice(names);
}

TEST(EndedContributionsTest, ARankThatStopsWhileTheOthersGoOnIsNamed) {
  const std::vector<Advice> advice = advised({"bbbbbb", "bbssss", "bbbbbb"});
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-contribution-ended");
  EXPECT_THAT(advice[0].message, HasSubstr("rank 1 contributes nothing to `first` from step 2 on"));
  EXPECT_THAT(advised({"bbbbb", "bbfff", "bbfff"}).at(0).message,
              HasSubstr("ranks 1, 2 contribute nothing to `second` from step 2 on"));
}

TEST(EndedContributionsTest, ProgramsThatLeaveTensorsOutInOtherWaysAreFine) {
  EXPECT_THAT(advised({"bbbbbb", "bbbbbb"}), IsEmpty());
  EXPECT_THAT(advised({"bbbbbb", "bssssss"}), IsEmpty()) << "once is not enough to have begun";
  EXPECT_THAT(advised({"bbbbbb", "bbbbss"}), IsEmpty()) << "two may be chance";
  EXPECT_THAT(advised({"bbbbbb", "bbsssb"}), IsEmpty()) << "it comes back";
  EXPECT_THAT(advised({"bbssss", "bbssss"}), IsEmpty()) << "frozen everywhere";
  EXPECT_THAT(advised({"bbbbbs", "bbssss"}), IsEmpty()) << "frozen everywhere in the end";
  EXPECT_THAT(advised({"bbbbbb", "ssssss"}), IsEmpty()) << "a task of its own from the start";
  EXPECT_THAT(advised({"bbbbbb", "bbnnnn"}), IsEmpty()) << "it has run out of inputs";
  EXPECT_THAT(advised({"bbbbbb", "bb----"}), IsEmpty()) << "it has left";
}

}  // namespace
}  // namespace lockstep::laws
