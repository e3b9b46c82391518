// Buffers that rank 0's copy replaces, and what batch norm's counters of batches say about modes.
#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/laws/law.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::policy_of;

using Names = std::vector<std::string_view>;

const Names kCounters = {"1.num_batches_tracked", "3.num_batches_tracked"};

/// Ranks that train a network with two batch norms and a queue, step by step.
class NormedJob {
 public:
  explicit NormedJob(std::int32_t n_ranks) : job_(n_ranks) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      job_.at(rank);
      job_.stream.add(rank,
                      WrapEvent{.buffers = job_.stream.layout(
                                    {"1.num_batches_tracked", "3.num_batches_tracked", "queue"}),
                                .buffer_policy = BufferPolicy::kBroadcast0,
                                .n_ranks = n_ranks});
    }
  }

  /// A step in which rank 0's copies of these buffers replace others of these ranks.
  NormedJob& step(const std::vector<std::int32_t>& ranks, const Names& replaced) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      ++job_.at(rank).sync;
      if (std::ranges::find(ranks, rank) != ranks.end()) found(rank, replaced);
      --job_.at(rank).sync;
      job_.forward(rank);
      job_.step(rank, 1.0);
    }
    return *this;
  }

  NormedJob& step() { return step({}, {}); }

  /// One rank's step alone, before which rank 0's copies replace its counters.
  NormedJob& lone_step(std::int32_t rank) {
    found(rank, kCounters);
    job_.forward(rank);
    job_.step(rank, 1.0);
    return *this;
  }

  /// One more micro-step, of one rank alone.
  NormedJob& micro_step(std::int32_t rank) {
    job_.forward(rank, false);
    return *this;
  }

  NormedJob& declare(BufferPolicy policy) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      job_.at(rank);
      job_.stream.add(rank, BufferPolicyEvent{job_.stream.layout({"queue"}), policy});
    }
    return *this;
  }

  LawResult judged(BufferPolicy declared = BufferPolicy::kNone) const {
    LawPolicy policy = policy_of(job_.n_ranks());
    policy.buffers = declared;
    return check("buffers-policy", job_.stream, policy);
  }

 private:
  void found(std::int32_t rank, const Names& replaced) {
    const std::vector<std::uint64_t> digests(replaced.size(), 7);
    std::vector<NameId> names;
    for (const std::string_view name : replaced) names.push_back(job_.stream.name(name));
    job_.stream.add(rank,
                    StateEvent{.kind = StateKind::kBuffer,
                               .point = StatePoint::kFound,
                               .layout = job_.stream.names().intern_layout(names),
                               .digests = digests});
  }

  DdpJob job_;
};

std::string advised(const LawResult& result) {
  return result.advice.size() == 1 ? result.advice[0].id + ": " + result.advice[0].message : "";
}

TEST(ReplacedBuffersTest, RanksThatRunBatchNormAlikeGetNoWord) {
  const LawResult result = NormedJob(3).step().step().judged();
  EXPECT_TRUE(result.findings.empty());
  EXPECT_TRUE(result.advice.empty());
}

TEST(ReplacedBuffersTest, EveryCounterReplacedOnARankMeansThatItRanTheLayersInAnotherMode) {
  const LawResult result = NormedJob(3).step().step({1}, kCounters).step({1}, kCounters).judged();
  EXPECT_EQ(result.verdict, Verdict::kBroken);
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "batch-norm-uneven");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.step, 1);
  EXPECT_EQ(finding.tensor, "1.num_batches_tracked");
  EXPECT_EQ(finding.message,
            "batch norm has counted a different number of training batches on rank 1 than on rank "
            "0, before 2 forwards: the ranks ran it in training mode a different number of times");
  EXPECT_TRUE(result.advice.empty());
}

TEST(ReplacedBuffersTest, WhereAllTheOthersDifferRankZeroIsTheOddOne) {
  const LawResult result = NormedJob(3).step().step({1, 2}, kCounters).judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{0}});
  const LawResult of_two = NormedJob(2).step().step({1}, kCounters).judged();
  ASSERT_EQ(of_two.findings.size(), 1U);
  EXPECT_EQ(of_two.findings[0].ranks, std::vector<Rank>{Rank{1}}) << "nothing says which of two";
}

TEST(ReplacedBuffersTest, ATrialBeforeTheFirstStepIsAdvice) {
  const LawResult result = NormedJob(2).step({1}, kCounters).step().judged();
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(
      advised(result),
      "A-batch-norm-uneven: batch norm has counted a different number of training batches on rank "
      "1 than on rank 0 (`1.num_batches_tracked`, step 0, before one forward), and every rank "
      "continues with rank 0's statistics. Call model.eval() before every evaluation.");
}

TEST(ReplacedBuffersTest, ABranchThatSomeRanksLeaveOutIsAdvice) {
  const LawResult result = NormedJob(2).step().step({1}, {"3.num_batches_tracked"}).judged();
  EXPECT_TRUE(result.findings.empty());
  EXPECT_NE(advised(result).find("A-batch-norm-uneven"), std::string::npos) << advised(result);
}

TEST(ReplacedBuffersTest, WindowsOfDifferentLengthsExplainTheCounters) {
  const LawResult result = NormedJob(2).micro_step(0).step().step({1}, kCounters).judged();
  EXPECT_TRUE(result.findings.empty());
  EXPECT_TRUE(result.advice.empty());
}

// Ranks in step are delivered together; what one of them does after that comes from it alone.
TEST(ReplacedBuffersTest, ARankThatGoesOnAloneExplainsTheCounters) {
  const LawResult result = NormedJob(2).lone_step(1).lone_step(1).judged();
  EXPECT_TRUE(result.findings.empty());
}

TEST(ReplacedBuffersTest, ValuesThatRankZeroReplacesGetAdvice) {
  const LawResult result =
      NormedJob(3).step().step({1, 2}, {"queue"}).step({2}, {"queue"}).judged();
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(advised(result),
            "A-buffer-replaced: `queue`: rank 0's copy overwrote the values of ranks 1, 2 before 2 "
            "forwards, first in step 1. Write the same values on every rank or exclude the buffer "
            "from the broadcast, unless only rank 0's should count.");
}

TEST(ReplacedBuffersTest, ADeclaredPolicyIsTheProgramsWord) {
  NormedJob job(2);
  job.declare(BufferPolicy::kLocal).step().step({1}, {"queue"});
  EXPECT_TRUE(job.judged().advice.empty());
  const LawResult of_job = NormedJob(2).step({1}, {"queue"}).judged(BufferPolicy::kBroadcast0);
  EXPECT_TRUE(of_job.advice.empty());
}

}  // namespace
}  // namespace lockstep
