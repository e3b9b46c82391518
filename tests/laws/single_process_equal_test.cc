// single-process-equal on exchanges written by hand.
#include <gtest/gtest.h>

#include "lockstep/laws/law.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

/// A sum in place, with the same gradient on all ranks: what it needs to be right is an answer.
ExchangeEvent sum_in_place(EventStream& stream, std::int32_t n_ranks) {
  return {.call = CollectiveOp::kAllReduce,
          .n_ranks = n_ranks,
          .step = 4,
          .called_at = stream.name("train.py:40"),
          .join = ExchangeJoin::kInPlace,
          .digest = 7};
}

void wrap(EventStream& stream, std::int32_t group = 0) {
  for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
    stream.at(rank).wrapper = 0;
    stream.add(rank, WrapEvent{.group = group, .n_ranks = stream.n_ranks()});
  }
}

template <typename Change>
LawResult judged(Change change, std::int32_t n_ranks = 3, std::int32_t group = 0) {
  EventStream stream(n_ranks);
  wrap(stream, group);
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    ExchangeEvent event = sum_in_place(stream, n_ranks);
    change(stream, rank, event);
    stream.add(rank, event);
  }
  return check("single-process-equal", stream);
}

const std::vector<Rank> kAll = {Rank{0}, Rank{1}, Rank{2}};

TEST(SingleProcessEqualTest, AnAnsweredExchangeIsRight) {
  const LawResult result = judged([](auto&, auto, ExchangeEvent& e) { e.answered = true; });
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 3);
}

TEST(SingleProcessEqualTest, ASumOutsideAutogradIsTooSmallByTheNumberOfRanks) {
  const LawResult result = judged([](auto&, auto, ExchangeEvent&) {});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "collective-outside-autograd");
  EXPECT_EQ(finding.ranks, kAll);
  EXPECT_EQ(finding.step, 4);
  EXPECT_EQ(finding.site, "train.py:40");
  EXPECT_NE(finding.message.find("too small by a factor of 3, the number of ranks"),
            std::string::npos);
}

TEST(SingleProcessEqualTest, RanksWithGradientsOfTheirOwnLackTheOthersShares) {
  const LawResult result = judged([](auto&, std::int32_t rank, ExchangeEvent& e) {
    e.digest = 7 + static_cast<std::uint64_t>(rank);
  });
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].message.find("too small"), std::string::npos);
}

// The mean of equal gradients is what each rank has.
TEST(SingleProcessEqualTest, AnAverageInPlaceIsRightIfAllRanksHaveTheSameGradient) {
  const auto average = [](std::uint64_t apart) {
    return judged([apart](auto&, std::int32_t rank, ExchangeEvent& e) {
      e.reduce = ReduceOp::kAvg;
      e.digest = 7 + apart * static_cast<std::uint64_t>(rank);
    });
  };
  EXPECT_EQ(average(0).verdict, Verdict::kHolds);
  EXPECT_EQ(average(1).verdict, Verdict::kBroken);
}

// The mean of N times each rank's own share of one gradient is that gradient.
TEST(SingleProcessEqualTest, AFactorOfTheNumberOfRanksMakesUpForEqualGradients) {
  for (const CollectiveOp call : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather}) {
    const auto of = [&](std::uint64_t apart, std::int32_t not_scaled) {
      return judged([&](EventStream&, std::int32_t rank, ExchangeEvent& e) {
               e.call = call;
               e.join = ExchangeJoin::kFunction;
               e.digest = 7 + apart * static_cast<std::uint64_t>(rank);
               e.scaled = rank != not_scaled;
             })
          .verdict;
    };
    EXPECT_EQ(of(0, -1), Verdict::kHolds) << name_of(call);
    EXPECT_EQ(of(1, -1), Verdict::kBroken) << name_of(call);
    EXPECT_EQ(of(0, 2), Verdict::kBroken) << name_of(call);
  }
}

// Ranks whose results differ have nothing in common that equal gradients could be of.
TEST(SingleProcessEqualTest, AFactorMakesUpForNothingWhereRanksGetDifferentResults) {
  const LawResult result = judged([](EventStream&, auto, ExchangeEvent& e) {
    e.call = CollectiveOp::kReduceScatter;
    e.scaled = true;
  });
  EXPECT_EQ(result.verdict, Verdict::kBroken);
}

TEST(SingleProcessEqualTest, AFactorIsBelievedOnlyOfAllRanks) {
  EventStream stream(3);
  wrap(stream);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    ExchangeEvent event = sum_in_place(stream, 3);
    event.scaled = true;
    stream.add(rank, event);
  }
  EXPECT_EQ(check("single-process-equal", stream).verdict, Verdict::kBroken);
}

TEST(SingleProcessEqualTest, AGatherWithoutAnAnswerKeepsTheOwnShare) {
  for (const ExchangeJoin join : {ExchangeJoin::kConstant, ExchangeJoin::kFunction}) {
    const LawResult result = judged([&](EventStream&, auto, ExchangeEvent& e) {
      e.call = CollectiveOp::kAllGather;
      e.join = join;
    });
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "gather-own-share");
  }
}

// All compute the loss of the global batch: each has the whole gradient of its own values, and the mean over ranks, to which
// the others add nothing, is a third of it.
TEST(SingleProcessEqualTest, AGatherForOneCommonLossIsTooSmallByTheNumberOfRanks) {
  const auto message = [](std::uint64_t apart, std::int32_t ranks_seen) {
    EventStream stream(3);
    wrap(stream);
    for (std::int32_t rank = 0; rank < ranks_seen; ++rank) {
      ExchangeEvent event = sum_in_place(stream, 3);
      event.call = CollectiveOp::kAllGather;
      event.join = ExchangeJoin::kFunction;
      event.digest = 7 + apart * static_cast<std::uint64_t>(rank);
      stream.add(rank, event);
    }
    return check("single-process-equal", stream).findings.at(0).message;
  };
  const std::string says = "too small by a factor of 3, the number of ranks";
  EXPECT_NE(message(0, 3).find(says), std::string::npos) << message(0, 3);
  EXPECT_EQ(message(1, 3).find(says), std::string::npos) << "losses of their own";
  EXPECT_EQ(message(0, 2).find(says), std::string::npos) << "one is not known";
}

// As where each rank's own rows come first: they are in the place of rank 0.
TEST(SingleProcessEqualTest, OwnRowsInTheirPlaceAreSoOnEveryRank) {
  const auto of_one = [](ExchangeJoin join) {
    EventStream stream(2);
    wrap(stream);
    ExchangeEvent event = sum_in_place(stream, 2);
    event.call = CollectiveOp::kAllGather;
    event.join = join;
    stream.add(0, event);
    return check("single-process-equal", stream).verdict;
  };
  EXPECT_NE(of_one(ExchangeJoin::kConstant), Verdict::kBroken);
  EXPECT_EQ(of_one(ExchangeJoin::kFunction), Verdict::kBroken);
}

TEST(SingleProcessEqualTest, AFunctionsResultThatIsDroppedIsNamed) {
  const LawResult result = judged([](auto&, std::int32_t rank, ExchangeEvent& e) {
    e.join = ExchangeJoin::kFunction;
    e.dropped = rank == 1;
    e.answered = rank != 1;
  });
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "collective-result-dropped");
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{1}});
}

TEST(SingleProcessEqualTest, ConstantsThatWereAskedForAreRight) {
  EXPECT_EQ(judged([](auto&, auto, ExchangeEvent& e) { e.reduce = ReduceOp::kMax; }).verdict,
            Verdict::kHolds);
  EXPECT_EQ(judged([](auto&, auto, ExchangeEvent& e) {
              e.join = ExchangeJoin::kConstant;
              e.grad = false;
            }).verdict,
            Verdict::kHolds);
}

// Ranks that hold parts of one model have one loss, and each of them its own share of the gradient.
TEST(SingleProcessEqualTest, GroupsThatNoWrapperAveragesOverAreLeftAlone) {
  const auto of_group = [](std::int32_t group) {
    return judged([group](auto&, auto, ExchangeEvent& e) { e.group = group; }, 3, 2).verdict;
  };
  EXPECT_EQ(of_group(1), Verdict::kNotCheckable);
  EXPECT_EQ(of_group(2), Verdict::kBroken);
}

TEST(SingleProcessEqualTest, EveryCallIsNamedOnce) {
  EventStream stream(2);
  wrap(stream);
  for (std::int64_t seq = 0; seq < 6; ++seq) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      ExchangeEvent event = sum_in_place(stream, 2);
      event.seq = seq;
      event.called_at = stream.name(seq % 2 == 0 ? "train.py:40" : "train.py:50");
      stream.add(rank, event);
    }
  }
  EXPECT_EQ(check("single-process-equal", stream).findings.size(), 2U);
}

// Most traces have no exchange, and companion runs say the rest.
TEST(SingleProcessEqualTest, WithoutExchangesItIsLeftOutUnlessItIsAskedFor) {
  const EventStream stream(2);
  EXPECT_EQ(check("single-process-equal", stream).verdict, Verdict::kNotCheckable);
  LawSet all = std::move(LawSet::make(testing::policy_of(2)).value());
  for (const LawResult& result : all.finish(stream.trace().names())) {
    EXPECT_NE(result.law, "single-process-equal");
  }
}

}  // namespace
}  // namespace lockstep
