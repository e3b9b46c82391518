// Whether the number of a sample means one row on all ranks: advice of samples-covered.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// Two ranks that divide 64 samples, in passes of four forwards.
struct Shares {
  int n_passes = 4;
  std::uint64_t row_of_rank_1 = 1000;  ///< Added to the rows of rank 1.
  std::uint64_t row_of_pass = 0;       ///< Added to all rows of a pass, per pass: augmentation.
  std::int64_t n_replicas = 2;
  std::int32_t n_ranks_of_wrapper = 2;
  bool second_argument = false;
  bool evaluates = false;       ///< Samples of another split are read in each pass.
  bool second_wrapper = false;  ///< It is given other rows.
  bool alternate = false;       ///< Ranks change places after each pass.
  std::int64_t n_common = 0;    ///< Numbers that mean the same row.
};

void read_pass(DdpJob& job, std::int32_t rank, int pass, const Shares& how) {
  job.at(rank);
  job.stream.add(rank,
                 EpochEvent{.split = job.stream.name("train"),
                            .sampler = job.stream.name("distributed"),
                            .dataset_size = 64,
                            .n_replicas = how.n_replicas,
                            .per_rank = 32});
  std::vector<std::int64_t> ids;
  // Ranks change places after every second pass, so each reads every number twice.
  const std::int64_t first = (rank + (how.alternate ? pass : pass / 2)) % 2;
  for (std::int64_t i = 0; i < 32; ++i) ids.push_back(2 * i + first);
  job.stream.add(rank, SampleEvent{.split = job.stream.name("train"), .ids = ids});
  if (how.evaluates) {
    const std::vector<std::int64_t> others(32, 7);
    job.stream.add(rank, SampleEvent{.split = job.stream.name("eval"), .ids = others});
  }
  for (std::size_t begin = 0; begin < ids.size(); begin += 8) {
    job.forward(rank);
    std::vector<std::uint64_t> rows;
    for (std::size_t i = begin; i < begin + 8; ++i) {
      rows.push_back(static_cast<std::uint64_t>(ids[i]) + 100 +
                     (rank == 1 && ids[i] >= how.n_common ? how.row_of_rank_1 : 0) +
                     how.row_of_pass * static_cast<std::uint64_t>(pass));
    }
    job.stream.add(rank, InputEvent{.argument = job.stream.name("1"), .n_elems = 3, .rows = rows});
    if (how.second_argument)
      job.stream.add(rank,
                     InputEvent{.argument = job.stream.name("2"), .n_elems = 3, .rows = rows});
    if (how.second_wrapper) {
      job.wrapper = 1;
      job.at(rank);
      job.stream.add(rank,
                     InputEvent{.argument = job.stream.name("1"), .n_elems = 3, .rows = rows});
      job.wrapper = 0;
    }
    ++job.at(rank).opt;
    job.at(rank).micro = -1;
  }
}

std::string advised_of_shares(const Shares& how) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.n_ranks = how.n_ranks_of_wrapper});
  }
  for (int pass = 0; pass < how.n_passes; ++pass) {
    for (std::int32_t rank = 0; rank < 2; ++rank) read_pass(job, rank, pass, how);
  }
  std::string text;
  for (const Advice& advice : check("samples-covered", job.stream).advice) {
    if (advice.id == "A-samples-differ") text += advice.message;
  }
  return text;
}

TEST(SampleRowsTest, ANumberThatMeansAnotherRowOnEachRankGetsAdvice) {
  const std::string text = advised_of_shares({});
  EXPECT_TRUE(
      text.starts_with("the ranks share one sampler, but a sample index means a different row "
                       "on each rank. All 64 indices that two ranks have read differ (index 0 "
                       "on ranks 0 and 1, for example); none differs on one rank."))
      << text;
  EXPECT_EQ(advised_of_shares({.evaluates = true}), text);
  EXPECT_EQ(advised_of_shares({.second_wrapper = true}), text) << "one wrapper says it";
  EXPECT_EQ(advised_of_shares({.second_argument = true}), text) << "one argument says it";
}

TEST(SampleRowsTest, ANumberThatMeansOneRowIsRight) {
  EXPECT_EQ(advised_of_shares({.row_of_rank_1 = 0}), "");
}

TEST(SampleRowsTest, SomeNumbersThatMeanTheSameRowOnAllRanksRefuteIt) {
  EXPECT_EQ(advised_of_shares({.n_common = 8}), "");
}

TEST(SampleRowsTest, RowsThatChangeFromPassToPassSayNothing) {
  EXPECT_EQ(advised_of_shares({.row_of_pass = 5000}), "");
}

TEST(SampleRowsTest, NumbersThatNoRankReadsTwiceSayNothing) {
  EXPECT_EQ(advised_of_shares({.n_passes = 1}), "");
  EXPECT_EQ(advised_of_shares({.n_passes = 2}), "") << "no number has been read by both ranks";
  EXPECT_EQ(advised_of_shares({.n_passes = 2, .alternate = true}), "") << "nor by one rank twice";
}

TEST(SampleRowsTest, ARankThatNumbersItsOwnSamplesMayUseTheSameNumbers) {
  EXPECT_EQ(advised_of_shares({.n_replicas = 1}), "");
}

TEST(SampleRowsTest, RanksThatDoNotAverageTheirGradientsMayHoldOtherData) {
  EXPECT_EQ(advised_of_shares({.n_ranks_of_wrapper = 1}), "");
}

}  // namespace
}  // namespace lockstep
