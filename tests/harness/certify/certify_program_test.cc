// The published factors once more, as ordinary loops; each has a form that is right.
#include <cstdint>
#include <gmock/gmock.h>
#include <span>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/certify.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kRate = 0.1;

/// A model that is wrapped, and its optimizer.
struct Training {
  DistributedDataParallel<nn::Module> ddp;
  optim::Sgd optimizer;

  Training(RankContext& rank, Probe& probe)
      : ddp(probe.model(), rank.world()), optimizer(probe.model().parameters(), {.lr = kRate}) {}
};

double added(RankContext& rank, double value) {
  rank.world().all_reduce(Memory::of(std::span<double>(&value, 1))).wait_or_throw();
  return value;
}

/// One rank, micro-batches of 3, 3 and 1: the mean of the means.
void micro_step_means(RankContext& rank, Probe& probe, bool fixed) {
  Training training(rank, probe);
  training.optimizer.zero_grad();
  for (const std::int64_t n : {3, 3, 1}) {
    const ProbeBatch batch = probe.samples(n);
    const Variable output = training.ddp(batch.x);
    const Variable loss =
        fixed ? mse_loss(output, batch.y, 7.0) : scale(mse_loss(output, batch.y), 1.0 / 3.0);
    loss.backward();
  }
  training.optimizer.step();
}

/// One token here, nine there: the mean of the ranks' means.
void tokens_per_rank(RankContext& rank, Probe& probe, bool fixed) {
  Training training(rank, probe);
  const ProbeBatch batch = probe.sequences({rank.rank() == 0 ? 1 : 9});
  const Variable output = training.ddp(batch.x);
  const auto n_tokens = static_cast<double>(batch.n_tokens);
  const double divisor = fixed ? added(rank, n_tokens) / rank.world_size() : n_tokens;
  mse_loss(output, batch.y, divisor).backward();
  training.optimizer.step();
}

/// A sum over all samples, which the wrapper divides by the eight ranks.
void sum_averaged_again(RankContext& rank, Probe& probe, bool fixed) {
  Training training(rank, probe);
  const ProbeBatch batch = probe.samples(2);
  scale(sum(training.ddp(batch.x)), fixed ? rank.world_size() : 1.0).backward();
  training.optimizer.step();
}

/// Six micro-steps in windows of four, all divided by four.
void short_last_window(RankContext& rank, Probe& probe, bool fixed) {
  constexpr std::int64_t kMicros = 6;
  constexpr std::int64_t kWindow = 4;
  Training training(rank, probe);
  for (std::int64_t i = 0; i < kMicros; ++i) {
    const std::int64_t first = i - i % kWindow;
    const auto n = static_cast<double>(fixed ? std::min(kWindow, kMicros - first) : kWindow);
    const ProbeBatch batch = probe.samples(2);
    scale(mse_loss(training.ddp(batch.x), batch.y), 1.0 / n).backward();
    if ((i + 1) % kWindow != 0 && i + 1 != kMicros) continue;
    training.optimizer.step();
    training.optimizer.zero_grad();
  }
}

/// A hand-written loop adds the accumulated gradient over the ranks in each micro-step.
void reduced_in_each_micro_step(RankContext& rank, Probe& probe, bool fixed) {
  constexpr int kMicros = 4;
  const Variable weight = probe.model().parameters().front();
  optim::Sgd optimizer(probe.model().parameters(), {.lr = kRate});
  for (int i = 0; i < kMicros; ++i) {
    const ProbeBatch batch = probe.samples(1);
    const double share = 1.0 / (kMicros * rank.world_size());
    scale(mse_loss(probe.model()(batch.x), batch.y), share).backward();
    if (fixed && i + 1 < kMicros) continue;
    rank.world().all_reduce(Memory::of(weight.grad())).wait_or_throw();
  }
  optimizer.step();
}

struct LoopCase {
  const char* name;
  void (*loop)(RankContext&, Probe&, bool fixed);
  std::int32_t ranks;
  Objective objective;
  Deviation deviation;
  Fraction factor;
};

Certificate certificate_of(const LoopCase& one, bool fixed) {
  return certify({.ranks = one.ranks, .objective = one.objective},
                 [&](RankContext& rank, Probe& probe) { one.loop(rank, probe, fixed); });
}

const std::vector<LoopCase>& loop_cases() {
  static const std::vector<LoopCase> all = {
      {"micro_step_means",
       micro_step_means,
       1,
       Objective::sample_mean(),
       Deviation::kMeanOfMicros,
       Fraction(3)},
      {"tokens_per_rank",
       tokens_per_rank,
       2,
       Objective::token_mean(),
       Deviation::kMeanOfRanks,
       Fraction(9)},
      {"sum_averaged_again",
       sum_averaged_again,
       8,
       Objective::sum(),
       Deviation::kRanksDivided,
       Fraction(1, 8)},
      {"short_last_window",
       short_last_window,
       2,
       Objective::sample_mean(),
       Deviation::kShortWindow,
       Fraction(1, 2)},
      {"reduced_in_each_micro_step",
       reduced_in_each_micro_step,
       2,
       Objective::sample_mean(),
       Deviation::kGrowsPerMicro,
       Fraction(8)},
  };
  return all;
}

TEST(CertifyProgramTest, NamesEveryPublishedFactor) {
  for (const LoopCase& one : loop_cases()) {
    const Certificate certificate = certificate_of(one, false);
    EXPECT_EQ(certificate.fault().deviation, one.deviation) << one.name << "\n" << certificate;
    EXPECT_EQ(certificate.fault().factor, one.factor) << one.name << "\n" << certificate;
  }
}

TEST(CertifyProgramTest, CertifiesTheRepairOfEach) {
  for (const LoopCase& one : loop_cases()) {
    const Certificate certificate = certificate_of(one, true);
    EXPECT_TRUE(certificate.certified()) << one.name << "\n" << certificate;
    EXPECT_GT(certificate.windows.size(), 0U) << one.name;
  }
}

TEST(CertifyProgramTest, SaysWhereTheProgramReduced) {
  const Certificate certificate = certificate_of(loop_cases()[4], false);
  const WeightRow& row = certificate.windows.front().rows.front();
  EXPECT_THAT(row.site, HasSubstr("certify_program_test.cc:"));
  EXPECT_THAT(render_text(certificate), HasSubstr("reduced at"));
}

// A program that never averages: every rank steps with its own samples.
TEST(CertifyProgramTest, SaysThatRanksStepWithTheirOwnGradients) {
  const Certificate certificate = certify({.ranks = 3}, [](RankContext&, Probe& probe) {
    optim::Sgd optimizer(probe.model().parameters(), {.lr = kRate});
    const ProbeBatch batch = probe.samples(1);
    mse_loss(probe.model()(batch.x), batch.y).backward();
    optimizer.step();
  });
  EXPECT_EQ(certificate.fault().deviation, Deviation::kRanksDiffer);
  EXPECT_THAT(certificate.windows.front().other_ranks, ElementsAre(1, 2));
}

TEST(CertifyProgramTest, SaysThatASampleIsMissing) {
  const Certificate certificate = certify({.ranks = 2}, [](RankContext& rank, Probe& probe) {
    Training training(rank, probe);
    const ProbeBatch first = probe.samples(1);
    mse_loss(training.ddp(first.x), first.y).backward();
    const ProbeBatch unused = probe.samples(1);
    EXPECT_EQ(unused.n_samples, 1);
    training.optimizer.step();
  });
  EXPECT_EQ(certificate.fault().deviation, Deviation::kMissing) << certificate;
  EXPECT_EQ(certificate.fault().place.row, 1U);
}

TEST(CertifyProgramTest, SaysThatGradientsWereNotCleared) {
  const Certificate certificate = certify({.ranks = 2}, [](RankContext& rank, Probe& probe) {
    Training training(rank, probe);
    for (int step = 0; step < 2; ++step) {
      const ProbeBatch batch = probe.samples(1);
      mse_loss(training.ddp(batch.x), batch.y).backward();
      training.optimizer.step();
    }
  });
  EXPECT_EQ(certificate.fault().deviation, Deviation::kLeftOver) << certificate;
  EXPECT_EQ(certificate.fault().place.window, 1U);
}

// Cleared between forward and backward, as many scripts do: nothing is lost.
TEST(CertifyProgramTest, AcceptsGradientsClearedJustBeforeTheBackward) {
  const Certificate certificate = certify({.ranks = 2}, [](RankContext& rank, Probe& probe) {
    Training training(rank, probe);
    for (int step = 0; step < 3; ++step) {
      const ProbeBatch batch = probe.samples(2);
      const Variable loss = mse_loss(training.ddp(batch.x), batch.y);
      training.optimizer.zero_grad();
      loss.backward();
      training.optimizer.step();
    }
  });
  EXPECT_TRUE(certificate.certified()) << certificate;
  EXPECT_EQ(certificate.windows.size(), 3U);
}

TEST(CertifyProgramTest, SaysThatAWeightIsNotAFraction) {
  const Certificate certificate = certify({.ranks = 2}, [](RankContext& rank, Probe& probe) {
    Training training(rank, probe);
    const ProbeBatch batch = probe.samples(1);
    scale(mse_loss(training.ddp(batch.x), batch.y), 0.70710678118654752).backward();
    training.optimizer.step();
  });
  EXPECT_EQ(certificate.fault().deviation, Deviation::kNotAFraction);
}

TEST(CertifyProgramTest, RefusesLoopsThatItCannotFollow) {
  const auto nothing = [](RankContext&, Probe&) {};
  EXPECT_THROW(certify({.ranks = 2}, nothing), std::runtime_error);
  EXPECT_THROW(certify({.ranks = 0}, nothing), std::invalid_argument);
  EXPECT_THROW(certify({.ranks = 2, .objective = Objective::rank_weights({Fraction(1)})}, nothing),
               std::invalid_argument);
  const auto hangs = [](RankContext& rank, Probe&) {
    if (rank.rank() == 0) rank.world().barrier().wait_or_throw();
  };
  EXPECT_THROW(certify({.ranks = 2}, hangs), std::runtime_error);
  std::int64_t n_calls = 0;
  const auto changes = [&](RankContext&, Probe& probe) { probe.samples(++n_calls); };
  EXPECT_THROW(certify({.ranks = 1}, changes), std::runtime_error);
}

}  // namespace

}  // namespace lockstep
