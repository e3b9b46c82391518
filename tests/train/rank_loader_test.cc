// A rank's loader of a stream: who reads which rows, and which epoch its workers know.
#include <gtest/gtest.h>

#include "lockstep/train/rank_epoch.h"

#include "tests/train/one_rank.h"

namespace lockstep {
namespace {

using testing::column_data;
using testing::OneRank;

using Ids = std::vector<std::int64_t>;

Job stream_job(std::int64_t size, StreamShard shard, std::int64_t n_workers) {
  Job job;
  const auto n = static_cast<std::size_t>(size);
  job.train = column_data(std::vector<double>(n), std::vector<double>(n));
  job.loader = {.batch = 2, .sampler = SamplerKind::kStream, .workers = n_workers, .shard = shard};
  return job;
}

Ids ids_of(const Job& job, const RankContext& context) {
  return RankLoader(job, context).plan(0).ids;
}

TEST(RankLoaderTest, AnUndividedStreamIsReadOnceByEachWorker) {
  OneRank one;
  EXPECT_EQ(ids_of(stream_job(4, StreamShard::kNone, 0), one.as(1, 2)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(ids_of(stream_job(4, StreamShard::kNone, 2), one.as(1, 2)),
            (Ids{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(RankLoaderTest, ReadersDivideByRankOrByRankAndWorker) {
  OneRank one;
  EXPECT_EQ(ids_of(stream_job(8, StreamShard::kRank, 0), one.as(1, 2)), (Ids{1, 3, 5, 7}));
  EXPECT_EQ(ids_of(stream_job(8, StreamShard::kRankAndWorker, 2), one.as(0, 2)), (Ids{0, 4, 1, 5}));
  EXPECT_EQ(ids_of(stream_job(8, StreamShard::kRankAndWorker, 2), one.as(1, 2)), (Ids{2, 6, 3, 7}));
}

TEST(RankLoaderTest, WorkersThatEndEarlyAreFollowedByTheOthers) {
  OneRank one;
  const Job job = stream_job(5, StreamShard::kRankAndWorker, 2);

  const RankEpoch epoch = RankLoader(job, one.as(0, 1)).plan(0);

  EXPECT_EQ(epoch.ids, (Ids{0, 2, 1, 3, 4}));
  EXPECT_EQ(epoch.batch_sizes, (Ids{2, 2, 1}));
}

// Whether the second epoch's order, and what is recorded of it, repeat the first one's.
std::pair<bool, bool> repeats(std::int64_t n_workers, bool persistent) {
  OneRank one;
  Job job = stream_job(30, StreamShard::kRankAndWorker, n_workers);
  job.loader.shuffle = true;
  job.loader.persistent = persistent;
  const RankContext& context = one.as(0, 1);
  RankLoader loader(job, context);
  const RankEpoch first = loader.plan(0);
  const RankEpoch second = loader.plan(1);
  EXPECT_EQ(second.generator_key, first.generator_key + 1);
  return {second.ids == first.ids, second.order_digest == first.order_digest};
}

TEST(RankLoaderTest, OnlyPersistentWorkersKeepTheEpochTheyWereStartedWith) {
  EXPECT_EQ(repeats(0, false), std::pair(false, false));
  EXPECT_EQ(repeats(2, false), std::pair(false, false));
  EXPECT_EQ(repeats(2, true), std::pair(true, true));
}

TEST(RankLoaderTest, SamplersDoNotDependOnWorkers) {
  OneRank one;
  Job job = stream_job(9, StreamShard::kNone, 0);
  job.loader.sampler = SamplerKind::kDistributed;
  job.loader.shuffle = true;
  const Ids alone = ids_of(job, one.as(1, 2));
  job.loader.workers = 3;

  EXPECT_EQ(ids_of(job, one.as(1, 2)), alone);
}

}  // namespace
}  // namespace lockstep
