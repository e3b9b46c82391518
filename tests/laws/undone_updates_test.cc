// Steps of a rank's share that are overwritten with what was there before: trained-set.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

/// Two ranks that share the steps of parameters "a" and "b" out: rank 0 steps a, rank 1 steps b.
struct Sharing {
  std::int32_t n_wrapped = 2;  ///< Ranks of the wrapper.
  int n_steps = 3;
  int n_undone =
      n_steps;  ///< The first of the steps of b, of which the next forward finds the value before.
  bool found = true;       ///< What became of b is looked at.
  bool all_step = false;   ///< Rank 0 steps b, too, and goes back as well.
  bool whole = false;      ///< Rank 1 steps a and b.
  const char* scope = "";  ///< Of the broadcast.
};

void add_state(EventStream& stream,
               std::int32_t rank,
               StatePoint point,
               std::initializer_list<std::string_view> names,
               std::vector<std::uint64_t> digests) {
  stream.add(rank, StateEvent{.point = point, .layout = stream.layout(names), .digests = digests});
}

EventStream stream_of(const Sharing& given) {
  EventStream stream(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    stream.at(rank).wrapper = 0;
    stream.add(rank, WrapEvent{.params = stream.layout({"a", "b"}), .n_ranks = given.n_wrapped});
  }
  std::uint64_t a = 10;
  std::uint64_t b = 20;
  CollectiveEvent broadcast;
  broadcast.signature.op = CollectiveOp::kBroadcast;
  broadcast.signature.site = stream.site("train.cc", 36);
  broadcast.signature.site.scope = given.scope;
  for (int step = 0; step <= given.n_steps; ++step) {
    const bool undone = step <= given.n_undone;
    for (std::int32_t rank = 0; rank < 2 && step > 0 && given.found; ++rank) {
      const bool looks = undone ? rank == 1 || given.all_step : rank == 0;
      if (looks) add_state(stream, rank, StatePoint::kFound, {"b"}, {undone ? b : b + 1});
    }
    if (step > 0 && !undone) ++b;
    if (step == given.n_steps) break;
    if (given.all_step) {
      add_state(stream, 0, StatePoint::kStep, {"b"}, {b + 1});
    } else {
      add_state(stream, 0, StatePoint::kStep, {"a"}, {++a});
    }
    if (given.whole) {
      add_state(stream, 1, StatePoint::kStep, {"a", "b"}, {a, b + 1});
    } else {
      add_state(stream, 1, StatePoint::kStep, {"b"}, {b + 1});
    }
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      stream.add(rank, broadcast);
      ++stream.at(rank).opt;
    }
  }
  return stream;
}

LawResult trained_set(const Sharing& given) {
  const EventStream stream = stream_of(given);
  LawResult result = check("trained-set", stream);
  EXPECT_EQ(testing::check_together("trained-set", stream).findings.size(), result.findings.size());
  return result;
}

TEST(UndoneUpdatesTest, AShareWhoseStepsAreAllOverwrittenWithTheOldValueIsNamed) {
  const LawResult result = trained_set({});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "update-overwritten");
  EXPECT_EQ(finding.tensor, "b");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.step, 1) << "what was there before the first step is not known";
  EXPECT_EQ(finding.message,
            "only this rank steps the parameter, and each of its 2 recorded steps was overwritten "
            "with the value from before it, as by a broadcast from another rank at train.cc:36");
}

TEST(UndoneUpdatesTest, AWrappersOwnBroadcastIsNotTheProgramsLine) {
  const LawResult result = trained_set({.scope = "ddp.buffers"});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].message.find("train.cc"), std::string::npos);
}

TEST(UndoneUpdatesTest, OneStepShowsNoHabit) {
  EXPECT_TRUE(trained_set({.n_steps = 2}).findings.empty());
}

TEST(UndoneUpdatesTest, StepsOfWhichSomeStayMayBeTakenBack) {
  EXPECT_TRUE(trained_set({.n_steps = 5, .n_undone = 3}).findings.empty());
  EXPECT_TRUE(trained_set({.n_undone = 0}).findings.empty());
}

TEST(UndoneUpdatesTest, WhatWasNotOverwrittenStays) {
  EXPECT_TRUE(trained_set({.found = false}).findings.empty());
}

TEST(UndoneUpdatesTest, StepsThatAllRanksTakeBackAreMeant) {
  EXPECT_TRUE(trained_set({.all_step = true}).findings.empty());
}

TEST(UndoneUpdatesTest, ARankThatStepsAllOfThemSharesNothing) {
  EXPECT_TRUE(trained_set({.whole = true}).findings.empty());
}

TEST(UndoneUpdatesTest, AWrapperOfOneRankSharesNothing) {
  EXPECT_TRUE(trained_set({.n_wrapped = 1}).findings.empty());
}

}  // namespace
}  // namespace lockstep
