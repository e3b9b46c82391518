// Wrappers over parts of the world, on streams written by hand.
#include <gtest/gtest.h>

#include "lockstep/trace/cohort.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::DdpJob;
using testing::EventStream;
using testing::policy_of;

/// Ranks 0, 1 and 2, 3 are wrapped in pairs; both wrappers are the first of their ranks. Each pair
/// trains on its own: `odd` is added to rank 3's weight in the second step.
DdpJob pairs(double odd) {
  DdpJob job(4);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int32_t first = rank - rank % 2;
    const std::int32_t members[] = {first, first + 1};
    job.stream.add(rank, GroupEvent{.group = 1 + first, .members = members});
    job.weight(rank) = first;
    job.at(rank);
    job.stream.add(rank,
                   WrapEvent{.params = job.layout(),
                             .buffer_policy = BufferPolicy::kBroadcast0,
                             .group = 1 + first,
                             .n_ranks = 2});
    job.state(rank, StatePoint::kForward);
  }
  for (int step = 0; step < 2; ++step) {
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      const double pair = rank / 2 + 1.0;
      job.forward(rank);
      job.reduce(rank, pair + rank % 2, pair + rank % 2, pair + 0.5);
      if (rank == 3 && step == 1) job.weight(rank) += odd;
      job.step(rank, pair + 0.5);
    }
  }
  for (std::int32_t rank = 0; rank < 4; ++rank) job.end(rank);
  return job;
}

std::vector<LawResult> judged_as(const DdpJob& job, bool together) {
  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  if (together) {
    Cohort cohort;
    cohort.begin(job.n_ranks(), laws, nullptr);
    job.stream.play(cohort);
    cohort.flush(job.stream.trace().names());
  } else {
    job.stream.play(laws);
  }
  return laws.finish(job.stream.trace().names());
}

TEST(TeamsTest, PairsThatTrainApartAreNoReplicasOfEachOther) {
  for (const bool together : {false, true}) {
    for (const LawResult& result : judged_as(pairs(0.0), together)) {
      EXPECT_NE(result.verdict, Verdict::kBroken) << result.law;
      const bool compared = result.law == "replicas-equal" && result.n_checked == 4;
      EXPECT_EQ(compared, result.law == "replicas-equal");
    }
  }
}

TEST(TeamsTest, ARankThatDiffersFromItsPartnerIsNamed) {
  for (const bool together : {false, true}) {
    for (const LawResult& result : judged_as(pairs(1.0), together)) {
      if (result.law != "replicas-equal") continue;
      ASSERT_EQ(result.findings.size(), 1U);
      EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{3}});
      EXPECT_EQ(result.findings[0].step, 1);
    }
  }
}

struct Sampled {
  std::int32_t n_wrapped = 2;  ///< Ranks that a wrapper is over.
  bool begun_first = false;    ///< The epoch begins before the model is wrapped.
  bool other_seed = false;     ///< The second pair shuffles otherwise.
  bool outside = false;        ///< It is not known which wrapper trains on what the sampler draws.
  bool of_world = false;       ///< The sampler divides among all ranks, not among each pair.
};

/// Four ranks that read four samples, and wrappers that train on them.
EventStream sampled(const Sampled& what) {
  EventStream stream(4);
  const std::int32_t n_replicas = what.of_world ? 4 : 2;
  const auto begin = [&](std::int32_t rank) {
    const std::uint64_t key = what.other_seed && rank > 1 ? 9 : 5;
    stream.add(rank,
               EpochEvent{.split = stream.name("train"),
                          .sampler = stream.name("distributed"),
                          .generator_key = key,
                          .order_digest = key,
                          .dataset_size = 4,
                          .n_replicas = n_replicas,
                          .per_rank = 4 / n_replicas,
                          .shuffle = true});
  };
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int32_t first = rank - rank % what.n_wrapped;
    std::vector<std::int32_t> members;
    for (std::int32_t i = 0; i < what.n_wrapped; ++i) members.push_back(first + i);
    stream.add(rank, GroupEvent{.group = 1 + first, .members = members});
    if (what.begun_first) begin(rank);
    stream.at(rank).wrapper = 0;
    stream.add(rank, WrapEvent{.group = 1 + first, .n_ranks = what.n_wrapped});
    if (what.outside) stream.at(rank).wrapper = -1;
    if (!what.begun_first) begin(rank);
    stream.at(rank).wrapper = 0;
    std::vector<std::int64_t> ids;
    for (std::int64_t id = rank % n_replicas; id < 4; id += n_replicas) ids.push_back(id);
    stream.add(rank, SampleEvent{.split = stream.name("train"), .ids = ids});
    stream.add(rank, EndEvent{.outcome = EndOutcome::kOk});
  }
  return stream;
}

/// The causes of what `law` finds, rank by rank and together.
std::vector<std::string> causes_of(const char* law, const EventStream& stream) {
  std::vector<std::string> causes;
  for (const bool together : {false, true}) {
    LawSet laws = std::move(LawSet::make(policy_of(4), std::vector<std::string>{law}).value());
    Cohort cohort;
    cohort.begin(4, laws, nullptr);
    together ? stream.play(cohort) : stream.play(laws);
    cohort.flush(stream.trace().names());
    for (const LawResult& result : laws.finish(stream.trace().names())) {
      for (const Finding& finding : result.findings) causes.emplace_back(id_of(finding.cause));
    }
  }
  return causes;
}

TEST(TeamsTest, PairsThatTrainApartMayReadTheSameShards) {
  for (const bool begun_first : {false, true}) {
    EXPECT_TRUE(causes_of("samples-covered", sampled({.begun_first = begun_first})).empty());
  }
}

TEST(TeamsTest, RanksOfOneWrapperMayNotReadTheSameShards) {
  const std::vector<std::string> same_shard(2, "local-rank-as-rank");
  EXPECT_EQ(causes_of("samples-covered", sampled({.n_wrapped = 4})), same_shard);
}

// Pairs whose models are brought together otherwise divide one data set.
TEST(TeamsTest, PairsMayDivideTheDataSetOfAllRanks) {
  EXPECT_TRUE(causes_of("samples-covered", sampled({.of_world = true})).empty());
}

TEST(TeamsTest, EachPairHasAnOrderOfItsOwn) {
  for (const bool outside : {false, true}) {
    EXPECT_TRUE(
        causes_of("epoch-reshuffled", sampled({.other_seed = true, .outside = outside})).empty());
  }
  const std::vector<std::string> other_seed(2, "sampler-seed-differs");
  EXPECT_EQ(causes_of("epoch-reshuffled", sampled({.n_wrapped = 4, .other_seed = true})),
            other_seed);
}

}  // namespace
}  // namespace lockstep
