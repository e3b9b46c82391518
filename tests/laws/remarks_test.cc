// What recorders remark on a program becomes advice.
#include "lockstep/laws/rules/detail/remarks.h"

#include <gmock/gmock.h>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct RemarkCase {
  std::string_view law;
  LogKind kind;
  std::string_view id;
};

class RemarksTest : public ::testing::TestWithParam<RemarkCase> {
 protected:
  void say(std::int32_t rank, LogKind about, const std::string& text) {
    job_.at(rank).wrapper = -1;
    job_.stream.add(rank, LogEvent{.text = job_.stream.name(text), .kind = about});
  }

  std::vector<Advice> advice() const { return check(GetParam().law, job_.stream).advice; }

  DdpJob job_{3};
};

TEST_P(RemarksTest, ARemarkIsAdviceWithItsRanks) {
  for (const std::int32_t rank : {2, 0}) say(rank, GetParam().kind, "as it says");
  const auto advice = this->advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, GetParam().id);
  EXPECT_THAT(advice[0].message, StartsWith("ranks 0, 2: as it says. "));
}

TEST_P(RemarksTest, WhatIsSaidTwiceIsOneRemark) {
  for (std::int32_t i = 0; i < 2; ++i) say(1, GetParam().kind, "again");
  EXPECT_THAT(advice().at(0).message, StartsWith("rank 1: again. "));
}

TEST_P(RemarksTest, TheOrderInWhichRanksSayItDoesNotMatter) {
  NameTable names;
  laws::Remarks remarks(GetParam().kind);
  for (const std::int32_t rank : {2, 0, 2}) {
    Event event;
    event.rank = Rank{rank};
    event.body = LogEvent{.text = names.intern("as it says"), .kind = GetParam().kind};
    remarks.on_event(event, {.first = rank, .n = 1});
  }
  EXPECT_THAT(remarks.advice("A-x", "So.", names)->message, StartsWith("ranks 0, 2: as it says. "));
}

TEST_P(RemarksTest, AllRanksAtOnceAreAllNamed) {
  for (std::int32_t rank = 0; rank < 3; ++rank) say(rank, GetParam().kind, "together");
  const auto advice = check_together(GetParam().law, job_.stream).advice;
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message, StartsWith("ranks 0-2: together. "));
}

TEST_P(RemarksTest, LinesAboutAnythingElseAreNotRemarks) {
  for (const LogKind other : every<LogKind>()) {
    if (other != GetParam().kind) say(0, other, "something else");
  }
  for (const Advice& one : advice()) EXPECT_NE(one.id, GetParam().id);
}

TEST_P(RemarksTest, ThreeRemarksAreShownAndTheOthersCounted) {
  for (const char letter : std::string("dbca")) say(0, GetParam().kind, std::string(1, letter));
  EXPECT_THAT(advice().at(0).message, StartsWith("rank 0: a; rank 0: b; rank 0: c; and 1 more. "));
}

TEST_P(RemarksTest, SixtyFourRemarksAreKept) {
  for (std::int32_t i = 0; i < 70; ++i) say(0, GetParam().kind, "text " + std::to_string(i));
  say(1, GetParam().kind, "text 0");  // Known, so kept.
  EXPECT_THAT(advice().at(0).message, HasSubstr("and 61 more. "));
  EXPECT_THAT(advice().at(0).message, StartsWith("ranks 0, 1: text 0; "));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RemarksTest,
    ::testing::Values(
        RemarkCase{"checkpoint-whole", LogKind::kNotLoaded, "A-nothing-loaded"},
        RemarkCase{"reduced-once", LogKind::kWrappedAgain, "A-wrapped-again"},
        RemarkCase{"in-flight-untouched", LogKind::kResultsOverlap, "A-results-overlap"},
        RemarkCase{"in-flight-untouched", LogKind::kResultDropped, "A-result-dropped"},
        RemarkCase{"epoch-reshuffled", LogKind::kBatchesKept, "A-batches-kept"}),
    [](const auto& param) { return std::string(name_of(param.param.kind)); });

}  // namespace
}  // namespace lockstep
