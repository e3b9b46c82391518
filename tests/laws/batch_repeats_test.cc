// samples-covered's advice on batches of a stream that repeat, on events written by hand.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;

std::vector<Advice> advice_on_batches(const std::vector<std::vector<std::uint64_t>>& of_rank,
                                      std::string_view source = "stream",
                                      std::string_view split = "train") {
  DdpJob job(static_cast<std::int32_t>(of_rank.size()));
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.group = 0, .n_ranks = job.n_ranks()});
    for (const std::uint64_t digest : of_rank[static_cast<std::size_t>(rank)]) {
      job.stream.add(rank,
                     DataEvent{.part = DataPart::kBatch,
                               .split = job.stream.name(split),
                               .source = job.stream.name(source),
                               .digest = digest});
      ++job.at(rank).opt;
    }
  }
  return check("samples-covered", job.stream).advice;
}

TEST(BatchRepeatsTest, BatchesOfAStreamThatComeOnceAWorkerAreNamed) {
  const std::vector<Advice> advice = advice_on_batches({{1, 1, 2, 2, 3, 3}, {4, 4, 5, 5, 6, 6}});
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-batches-repeat");
  EXPECT_THAT(advice[0].message, HasSubstr("each batch of the stream comes 2 times in a row"));
  EXPECT_EQ(advice_on_batches({{1, 1, 1, 2, 2, 2, 3, 3}, {4, 4, 4, 5, 5, 5, 6}}).size(), 1U)
      << "cut short";
  EXPECT_EQ(advice_on_batches({{1, 1, 2, 2, 1, 1}, {4, 4, 5, 5, 4, 4}}).size(), 1U)
      << "a second pass";
}

TEST(BatchRepeatsTest, BatchesThatComeOnceOrNowAndThenAreFine) {
  EXPECT_TRUE(advice_on_batches({{1, 2, 3, 4}, {5, 6, 7, 8}}).empty());
  EXPECT_TRUE(advice_on_batches({{1, 1, 2, 3, 3}, {4, 4, 5, 6, 6}}).empty());
  EXPECT_TRUE(advice_on_batches({{1, 2, 2, 3, 3}, {4, 5, 5, 6, 6}}).empty());
  EXPECT_TRUE(advice_on_batches({{1, 1, 2, 2, 2}, {4, 4, 5, 5, 5}}).empty());
  EXPECT_TRUE(advice_on_batches({{1, 1, 2}, {4, 4, 5}}).empty()) << "too few to say";
}

// One batch that is used again and again is a test of the model.
TEST(BatchRepeatsTest, OneBatchThatIsRepeatedProvesNothing) {
  EXPECT_TRUE(advice_on_batches({{1, 1, 1, 1}, {4, 4, 4, 4}}).empty());
}

TEST(BatchRepeatsTest, AllRanksHaveToRepeatAsOften) {
  EXPECT_TRUE(advice_on_batches({{1, 1, 2, 2}, {4, 5, 6, 7}}).empty());
  EXPECT_TRUE(advice_on_batches({{1, 1, 2, 2, 3, 3}, {4, 4, 4, 5, 5, 5}}).empty());
}

TEST(BatchRepeatsTest, OnlyStreamsThatAreTrainedOnAreLookedAt) {
  const std::vector<std::vector<std::uint64_t>> twice = {{1, 1, 2, 2}, {4, 4, 5, 5}};
  EXPECT_TRUE(advice_on_batches(twice, "random").empty());
  EXPECT_TRUE(advice_on_batches(twice, "stream", "eval").empty());
}

}  // namespace
}  // namespace lockstep
