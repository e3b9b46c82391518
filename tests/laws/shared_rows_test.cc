// samples-covered's advice on rows that forwards are given, on streams written by hand.
#include <functional>
#include <gmock/gmock.h>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::DdpJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::uint64_t>;

/// The first `n` of an order of `size` rows that is drawn from `seed`.
Rows order(unsigned seed, std::size_t n = 64, std::size_t size = 64) {
  Rows rows(size);
  std::iota(rows.begin(), rows.end(), 100);
  std::mt19937 generator(seed);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[generator() % i]);
  rows.resize(n);
  return rows;
}

/// What rank `rank` of `n` takes of such an order.
Rows part(unsigned seed, std::size_t rank, std::size_t n) {
  Rows own;
  const Rows all = order(seed);
  for (std::size_t i = rank; i < all.size(); i += n) own.push_back(all[i]);
  return own;
}

/// Of two passes without a row that comes twice, in forwards of four: how many rows the other rank has read in an earlier
/// forward, and of how many, until the last forward that brings a new one.
std::string shared_of(const Rows& left, const Rows& right) {
  const auto read_before = [](const Rows& rows, std::uint64_t row, std::size_t forward) {
    return std::ranges::count(rows.begin(), rows.begin() + 4 * std::ptrdiff_t(forward), row) > 0;
  };
  std::int64_t n_shared = 0;
  std::string text;
  for (std::size_t i = 0; i < left.size(); i += 4) {
    const std::int64_t n_before = n_shared;
    for (std::size_t j = i; j < i + 4; ++j)
      n_shared += read_before(right, left[j], i / 4) + read_before(left, right[j], i / 4);
    if (n_shared - n_before < 8)
      text = std::to_string(n_shared) + " of " + std::to_string(2 * (i + 4)) + " rows";
  }
  return text;
}

class GivenRows {
 public:
  explicit GivenRows(std::int32_t n_ranks = 2, WrapEvent wrap = {.group = 0, .n_ranks = 0})
      : job_(n_ranks) {
    wrap.n_ranks = wrap.n_ranks > 0 ? wrap.n_ranks : n_ranks;
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      for (job_.wrapper = 0; job_.wrapper < 2; ++job_.wrapper) {
        job_.at(rank);
        job_.stream.add(rank, wrap);
      }
    }
    job_.wrapper = 0;
  }

  GivenRows& to(std::int32_t wrapper) {
    job_.wrapper = wrapper;
    return *this;
  }

  /// What follows belongs to a later attempt.
  GivenRows& restart() {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      ++job_.at(rank).attempt;
      job_.stream.add(rank, WrapEvent{.group = 0, .n_ranks = job_.n_ranks()});
    }
    return *this;
  }

  /// A pass of each rank, in forwards of `size` rows.
  GivenRows& pass(const std::vector<Rows>& of_rank, std::string_view argument = "1") {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      const Rows& rows = of_rank[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < rows.size(); i += size) {
        const std::span batch = std::span(rows).subspan(i, std::min(size, rows.size() - i));
        job_.at(rank);
        job_.stream.add(rank,
                        InputEvent{.argument = job_.stream.name(argument),
                                   .dtype = dtype,
                                   .n_elems = n_elems,
                                   .rows = batch});
        ++job_.at(rank).opt;
      }
    }
    return *this;
  }

  /// Each rank reads one sample of its own.
  GivenRows& samples(std::string_view split) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      const std::int64_t ids[] = {rank};
      job_.at(rank);
      job_.stream.add(rank, SampleEvent{.split = job_.stream.name(split), .ids = ids});
    }
    return *this;
  }

  /// All ranks read a batch with this digest, which nothing divides.
  GivenRows& batch(std::string_view split, std::uint64_t digest = 7) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      job_.at(rank);
      job_.stream.add(rank,
                      DataEvent{.part = DataPart::kBatch,
                                .split = job_.stream.name(split),
                                .source = job_.stream.name("random"),
                                .digest = digest});
    }
    return *this;
  }

  LawResult check() { return testing::check("samples-covered", job_.stream); }

  std::vector<Advice> advice() { return check().advice; }

  DType dtype = DType::kF32;
  std::int64_t n_elems = 4;
  std::size_t size = 4;  ///< Of a batch.

 private:
  DdpJob job_;
};

TEST(SharedRowsTest, RanksThatReadAllDataInOrdersOfTheirOwnAreAdvised) {
  const std::vector<Advice> advice = GivenRows().pass({order(1), order(2)}).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-rows-shared");
  EXPECT_THAT(advice[0].message, HasSubstr(shared_of(order(1), order(2))));
  EXPECT_THAT(advice[0].message, HasSubstr("argument 1 of the forward"));
}

TEST(SharedRowsTest, PartsOfOrdersOfTheirOwnAddUpOverPasses) {
  GivenRows job;
  job.pass({part(1, 0, 2), part(2, 1, 2)});
  EXPECT_THAT(job.advice(), IsEmpty()) << "one pass of half the data may be chance";
  job.pass({part(3, 0, 2), part(4, 1, 2)}).pass({part(5, 0, 2), part(6, 1, 2)});
  ASSERT_EQ(job.advice().size(), 1U);
}

TEST(SharedRowsTest, TheFirstSharedRowIsNamedByItsStep) {
  const std::vector<Advice> advice = GivenRows()
                                         .pass({{1, 2, 3, 4}, {5, 6, 7, 8}})
                                         .pass({order(1), order(1)})
                                         .pass({order(7), order(8)})
                                         .advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message, HasSubstr("first at step 18"));
}

TEST(SharedRowsTest, OneOrderThatRanksDivideIsInOrder) {
  GivenRows job(4);
  for (unsigned epoch = 0; epoch < 8; ++epoch)
    job.pass({part(epoch, 0, 4), part(epoch, 1, 4), part(epoch, 2, 4), part(epoch, 3, 4)});
  EXPECT_THAT(job.advice(), IsEmpty());
}

TEST(SharedRowsTest, SharesThatGoRoundAreInOrder) {
  const Rows low = part(1, 0, 2);
  const Rows high = part(1, 1, 2);
  EXPECT_THAT(GivenRows().pass({low, high}).pass({high, low}).advice(), IsEmpty());
}

TEST(SharedRowsTest, PaddingIsInOrder) {
  GivenRows job(4);
  for (unsigned epoch = 0; epoch < 6; ++epoch) {
    std::vector<Rows> parts = {
        part(epoch, 0, 4), part(epoch, 1, 4), part(epoch, 2, 4), part(epoch, 3, 4)};
    for (std::size_t rank = 1; rank < 4; ++rank) parts[rank].back() = parts[0][rank];
    job.pass(parts);
  }
  EXPECT_THAT(job.advice(), IsEmpty());
}

TEST(SharedRowsTest, ALastBatchMayBeFilledUpWithRowsOfOthers) {
  std::vector<Rows> parts(2, Rows(64));
  std::iota(parts[0].begin(), parts[0].end(), 0);
  std::iota(parts[1].begin(), parts[1].end(), 1000);
  std::copy_n(parts[1].begin(), 24, parts[0].begin() + 40);
  std::copy_n(parts[0].begin(), 24, parts[1].begin() + 40);
  GivenRows job;
  job.size = 32;
  EXPECT_THAT(job.pass(parts).advice(), IsEmpty());
  EXPECT_EQ(job.pass({order(1, 32), order(2, 32, 2000)}).advice().size(), 1U)
      << "it was not the last";
}

TEST(SharedRowsTest, WhatAnEarlierAttemptReadBySamplersSaysNothing) {
  GivenRows job;
  job.samples("train").restart().pass({order(1), order(2)});
  EXPECT_EQ(job.advice().size(), 1U);
}

TEST(SharedRowsTest, AFewSharedRowsMayBeMeant) {
  // 32 hard ones of 1,024 come to the other rank as well.
  std::vector<Rows> parts(2, Rows(512));
  std::iota(parts[0].begin(), parts[0].end(), 0);
  std::iota(parts[1].begin(), parts[1].end(), 1000);
  for (std::size_t i = 0; i < 32; ++i) parts[1][16 * i + 8] = parts[0][16 * i];
  EXPECT_THAT(GivenRows().pass(parts).advice(), IsEmpty());
  for (std::size_t i = 0; i < 32; ++i) parts[1][16 * i + 12] = parts[0][16 * i + 4];
  EXPECT_EQ(GivenRows().pass(parts).advice().size(), 1U);
}

TEST(SharedRowsTest, RanksOfEachNodeThatTakeThePartsOfTheFirstNodeAreAdvised) {
  const std::vector<Advice> advice =
      GivenRows(4).pass({part(1, 0, 2), part(1, 1, 2), part(1, 0, 2), part(1, 1, 2)}).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-rows-shared");
  EXPECT_THAT(advice[0].message, HasSubstr("ranks 0, 2 train on the same rows"));
  EXPECT_THAT(advice[0].message, HasSubstr("in each of 8 forwards"));
}

TEST(SharedRowsTest, ThreeRanksWithRowsOfTheirOwnAndTwoWithAConstantAreInOrder) {
  const Rows ones(8, 1);
  EXPECT_THAT(
      GivenRows(4)
          .pass({ones, ones, {11, 12, 13, 14, 15, 16, 17, 18}, {21, 22, 23, 24, 25, 26, 27, 28}})
          .advice(),
      IsEmpty());
}

TEST(SharedRowsTest, GroupsThatTrainApartMayReadTheSame) {
  EXPECT_THAT(GivenRows(2, {.group = 3, .n_ranks = 2}).pass({order(1), order(2)}).advice(),
              IsEmpty());
  EXPECT_THAT(GivenRows(4, {.group = 0, .n_ranks = 2})
                  .pass({order(1), order(2), order(1), order(2)})
                  .advice(),
              IsEmpty());
}

TEST(SharedRowsTest, InALargeWorldTheFirstRanksSpeakForAll) {
  std::vector<Rows> parts(70);
  for (unsigned rank = 0; rank < 64; ++rank) parts[rank] = order(rank, 64, 2000);
  ASSERT_EQ(GivenRows(70).pass(parts).advice().size(), 1U);
  parts[63].clear();
  EXPECT_THAT(GivenRows(70).pass(parts).advice(), IsEmpty()) << "not all of them have been seen";
}

TEST(SharedRowsTest, RanksAreComparedAsFarAsAllOfThemCame) {
  std::vector<Rows> parts = {order(1), order(2, 4)};
  EXPECT_THAT(GivenRows().pass(parts).advice(), IsEmpty());
  parts = {part(1, 0, 2), part(1, 1, 2)};
  parts[0].insert(parts[0].end(), parts[1].begin(), parts[1].end());
  EXPECT_THAT(GivenRows().pass(parts).advice(), IsEmpty()) << "rank 0 goes on alone";
}

TEST(SharedRowsTest, NoiseThatIsTheSameOnAllRanksIsAdvised) {
  const std::vector<Advice> advice = GivenRows()
                                         .to(0)
                                         .pass({part(1, 0, 2), part(1, 1, 2)})
                                         .to(1)
                                         .pass({order(9, 32), order(9, 32)})
                                         .advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-same-inputs");
  EXPECT_THAT(advice[0].message, HasSubstr("argument 1 of the forward of wrapper 1"));
}

TEST(SharedRowsTest, AnotherArgumentOfOneForwardMayBeTheNoise) {
  GivenRows job;
  job.pass({part(1, 0, 2), part(1, 1, 2)}, "1").pass({order(9, 32), order(9, 32)}, "2");
  ASSERT_EQ(job.advice().size(), 1U);
  EXPECT_THAT(job.advice()[0].message, HasSubstr("argument 2"));
}

TEST(SharedRowsTest, TargetsMayBeTheNoise) {
  GivenRows job;
  job.pass({part(1, 0, 2), part(1, 1, 2)}, "1").pass({order(9, 32), order(9, 32)}, "target");
  ASSERT_EQ(job.advice().size(), 1U);
  EXPECT_THAT(job.advice()[0].message, HasSubstr("the targets of the loss of wrapper 0"));
}

TEST(SharedRowsTest, TargetsOfDifferentSamplesMayBeAlike) {
  EXPECT_THAT(GivenRows().pass({order(1), order(2)}, "target").advice(), IsEmpty());
  EXPECT_THAT(GivenRows()
                  .pass({order(1, 32), order(2, 32)}, "target")
                  .pass({order(9, 32), order(9, 32)}, "1")
                  .advice(),
              IsEmpty())
      << "targets do not count as another input";
}

/// Batches with as many samples of each class may name the classes in one order on all ranks.
TEST(SharedRowsTest, LabelsAndSingleNumbersMayBeAlike) {
  GivenRows job;
  job.pass({part(1, 0, 2), part(1, 1, 2)}, "1");
  job.dtype = DType::kI64;
  EXPECT_THAT(job.pass({order(9, 32), order(9, 32)}, "2").advice(), IsEmpty());
  GivenRows other;
  other.pass({part(1, 0, 2), part(1, 1, 2)}, "1");
  other.n_elems = 1;
  EXPECT_THAT(other.pass({order(9, 32), order(9, 32)}, "2").advice(), IsEmpty());
}

TEST(SharedRowsTest, WhereNothingDiffersOtherLawsSaySo) {
  EXPECT_THAT(
      GivenRows().to(0).pass({order(1), order(1)}).to(1).pass({order(9), order(9)}).advice(),
      IsEmpty());
}

/// Masks, positions and steps: alike on all ranks, and no noise.
TEST(SharedRowsTest, InputsThatDoNotChangeOrHaveEqualRowsAreInOrder) {
  const auto beside = [](const Rows& rows) {
    return GivenRows().pass({part(1, 0, 2), part(1, 1, 2)}, "1").pass({rows, rows}, "2").advice();
  };
  EXPECT_THAT(beside({1, 2, 3, 4, 1, 2, 3, 4}), IsEmpty()) << "the same in each forward";
  EXPECT_THAT(beside({1, 1, 1, 1, 2, 2, 2, 2}), IsEmpty()) << "one value per forward";
  EXPECT_THAT(beside({1, 2, 3, 4}), IsEmpty()) << "one forward";
  GivenRows job;
  job.size = 1;
  job.pass({part(1, 0, 2), part(1, 1, 2)}, "1").pass({order(9, 32), order(9, 32)}, "2");
  EXPECT_THAT(job.advice(), IsEmpty()) << "one row per forward, such as a step";
}

TEST(SharedRowsTest, SamplerEventsTakePrecedenceOverRowComparison) {
  for (const auto& [split, n_advised] : {std::pair{"train", 0U}, {"val", 1U}}) {
    EXPECT_EQ(GivenRows().samples(split).pass({order(1), order(2)}).advice().size(), n_advised);
    EXPECT_EQ(GivenRows().batch(split).pass({order(1), order(2)}).advice().size(), n_advised);
  }
}

TEST(SharedRowsTest, NoiseBesideSamplesIsAdvised) {
  EXPECT_EQ(GivenRows()
                .samples("train")
                .pass({part(1, 0, 2), part(1, 1, 2)}, "1")
                .pass({order(9, 32), order(9, 32)}, "2")
                .advice()
                .size(),
            1U);
}

TEST(SharedRowsTest, BesideAFindingRowsAreNotComparedAndNoiseIs) {
  GivenRows job;
  job.pass({order(1), order(2)}, "1").pass({order(9, 32), order(9, 32)}, "2");
  EXPECT_EQ(job.advice().size(), 2U);
  const LawResult result = job.batch("train").batch("train", 8).check();
  EXPECT_EQ(result.findings.size(), 1U);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-same-inputs");
}

}  // namespace
}  // namespace lockstep
