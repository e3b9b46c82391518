// Weights from gradients made by hand.
#include "lockstep/harness/certify/detail/weigh.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/harness/certify/detail/columns.h"

namespace lockstep {

namespace {

/// Two ranks, one window, `n_micros` micro-steps of one sample each; `used` on both.
ProbedRun made_run(std::size_t n_micros, const std::vector<double>& used) {
  ProbedRun run;
  run.ranks.resize(2);
  for (std::size_t r = 0; r < 2; ++r) {
    RankWindow window{.stepped = true, .used = used};
    for (std::size_t m = 0; m < n_micros; ++m) {
      window.micros.push_back({.ids = {static_cast<std::int64_t>(m)}, .site = {}});
    }
    run.ranks[r].push_back(std::move(window));
  }
  const auto n = static_cast<std::int64_t>(n_micros);
  run.sample = [n](std::int32_t rank, std::int64_t id) {
    return ProbedSample{.column = rank * n + id, .n_tokens = 1};
  };
  return run;
}

Certificate judged(const ProbedRun& run, const Objective& objective = Objective::sample_mean()) {
  Certificate certificate = weigh(run, objective);
  name_faults(certificate);
  return certificate;
}

TEST(WeighTest, CertifiesTheMeanThroughItsRounding) {
  const double sixth = 1.0 / 6.0;
  EXPECT_TRUE(judged(made_run(3, std::vector<double>(6, sixth))).certified());
  // Ten units in the last place: less than (3 + 1) (2 + 16) roundings.
  const double off = sixth * (1 + 10 * std::numeric_limits<double>::epsilon());
  EXPECT_TRUE(judged(made_run(3, std::vector<double>(6, off))).certified());
}

// The certificate's own negative twin: one element of six, off by a billionth.
TEST(WeighTest, NoticesOneWeightThatIsOffByABillionth) {
  std::vector<double> used(6, 1.0 / 6.0);
  used[4] *= 1 + 1e-9;
  const Certificate certificate = judged(made_run(3, used));
  EXPECT_FALSE(certificate.certified()) << certificate;
}

TEST(WeighTest, NoticesAnElementOfNoSample) {
  std::vector<double> used(7, 1.0 / 6.0);
  EXPECT_EQ(judged(made_run(3, used)).fault().deviation, Deviation::kLeftOver);
  used[6] = 0.0;
  EXPECT_TRUE(judged(made_run(3, used)).certified());
}

TEST(WeighTest, NoticesARankWhoseGradientDiffersInTheLastBit) {
  ProbedRun run = made_run(1, {0.5, 0.5});
  run.ranks[1].front().used[0] += std::numeric_limits<double>::epsilon() / 2;
  const Certificate certificate = judged(run);
  EXPECT_EQ(certificate.fault().deviation, Deviation::kRanksDiffer);
  EXPECT_EQ(certificate.windows.front().other_ranks, std::vector<std::int32_t>{1});
}

TEST(WeighTest, NoticesAStepThatOneRankLeavesOut) {
  ProbedRun run = made_run(1, {0.5, 0.5});
  run.ranks[1].front().stepped = false;
  EXPECT_EQ(judged(run).fault().deviation, Deviation::kNeverUsed);
}

TEST(WeighTest, SharesTheWeightOfARowThatIsReadTwice) {
  ProbedRun run = made_run(1, {2.0 / 3.0, 1.0 / 3.0});
  run.ranks[0].front().micros.push_back(run.ranks[0].front().micros.front());
  EXPECT_TRUE(judged(run).certified());
}

TEST(WeighTest, NamesConstantFactors) {
  const auto factor = [](double value, const Objective& objective = Objective::sample_mean()) {
    return judged(made_run(3, std::vector<double>(6, value)), objective).fault().deviation;
  };
  EXPECT_EQ(factor(2.0 / 6.0), Deviation::kRanksAdded);
  EXPECT_EQ(factor(0.5 / 6.0), Deviation::kRanksDivided);
  EXPECT_EQ(factor(3.0 / 6.0), Deviation::kMicrosAdded);
  EXPECT_EQ(factor(1.0 / 18.0), Deviation::kMicrosDivided);
  EXPECT_EQ(factor(1.0), Deviation::kLossSummed);
  EXPECT_EQ(factor(5.0 / 6.0), Deviation::kScaled);
  EXPECT_EQ(factor(0.0), Deviation::kMissing);
  EXPECT_EQ(factor(1.0, Objective::sum()), Deviation::kNone);
}

TEST(WeighTest, NamesBothWhereThereAreAsManyRanksAsMicroSteps) {
  EXPECT_EQ(judged(made_run(2, std::vector<double>(4, 0.5))).fault().deviation,
            Deviation::kEitherAdded);
  EXPECT_EQ(judged(made_run(2, std::vector<double>(4, 0.125))).fault().deviation,
            Deviation::kEitherDivided);
}

TEST(WeighTest, NamesNoPatternWhereThereIsNone) {
  const Certificate certificate = judged(made_run(2, {0.1, 0.2, 0.3, 0.4}));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kUneven);
  EXPECT_EQ(certificate.fault().factor, Fraction(4));
}

TEST(WeighTest, TellsTokensFromSamples) {
  ProbedRun run = made_run(1, {0.5, 0.5});
  run.sample = [](std::int32_t rank, std::int64_t) {
    return ProbedSample{.column = rank, .n_tokens = rank == 0 ? 1 : 3};
  };
  EXPECT_TRUE(judged(run).certified());
  EXPECT_FALSE(judged(run, Objective::token_mean()).certified());
  for (auto& rank : run.ranks) rank.front().used = {0.25, 0.75};
  EXPECT_TRUE(judged(run, Objective::token_mean()).certified());
  EXPECT_EQ(judged(run).fault().deviation, Deviation::kCountsTokens);
  EXPECT_TRUE(judged(run, Objective::rank_weights({Fraction(1, 4), Fraction(3, 4)})).certified());
}

TEST(ColumnsTest, AreSharedOnlyByWindowsThatAreNotNeighbours) {
  std::vector<std::vector<RankWindow>> ranks(2);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::int64_t w = 0; w < 5; ++w) {
      ranks[r].push_back({.stepped = true, .micros = {{.ids = {2 * w, 2 * w + 1}, .site = {}}}});
    }
  }
  const Columns columns = choose_columns(ranks);
  EXPECT_EQ(columns.of.size(), 20U);
  EXPECT_EQ(columns.n, 8);  // Of two windows with two samples on either rank.
  for (const auto& [key, column] : columns.of) {
    for (const auto& [other, other_column] : columns.of) {
      if (key == other || column != other_column) continue;
      EXPECT_GE(std::abs(key.second / 2 - other.second / 2), 2);
    }
  }
}

}  // namespace

}  // namespace lockstep
