// Random loops whose weights are drawn: a certificate is given exactly where they are the
// objective's.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "lockstep/certify.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {

namespace {

/// One rank's micro-step: its samples' tokens, and the weight drawn for each token.
struct DrawnMicro {
  std::vector<std::int64_t> tokens;
  Fraction weight;
};

/// window -> rank -> micro-step
using DrawnRun = std::vector<std::vector<std::vector<DrawnMicro>>>;

/// Uneven in everything: windows of different length, batches of different sizes, samples of
/// different lengths.
DrawnRun draw_counts(std::int32_t n_ranks) {
  DrawnRun run(static_cast<std::size_t>(*rc::gen::inRange(1, 4)));
  for (auto& window : run) {
    const auto n_micros = static_cast<std::size_t>(*rc::gen::inRange(1, 4));
    window.resize(static_cast<std::size_t>(n_ranks));
    for (auto& rank : window) {
      rank.resize(n_micros);
      for (DrawnMicro& micro : rank) {
        const auto n = static_cast<std::size_t>(*rc::gen::inRange(1, 4));
        micro.tokens =
            *rc::gen::container<std::vector<std::int64_t>>(n, rc::gen::inRange<std::int64_t>(1, 9));
      }
    }
  }
  return run;
}

std::int64_t total_tokens(const std::vector<std::vector<DrawnMicro>>& window) {
  std::int64_t n = 0;
  for (const auto& rank : window) {
    for (const DrawnMicro& micro : rank) {
      for (const std::int64_t tokens : micro.tokens) n += tokens;
    }
  }
  return n;
}

/// Multiplies each micro-step's summed loss by its drawn weight, and by the ranks that DDP divides
/// by.
void train(const DrawnRun& run, RankContext& rank, Probe& probe) {
  DistributedDataParallel<nn::Module> ddp(probe.model(), rank.world());
  optim::Sgd optimizer(probe.model().parameters(), {.lr = 0.5});
  for (const auto& window : run) {
    optimizer.zero_grad();
    const auto& micros = window[static_cast<std::size_t>(rank.rank())];
    for (std::size_t i = 0; i < micros.size(); ++i) {
      const ProbeBatch batch = probe.sequences(micros[i].tokens);
      const auto backward = [&] {
        const double factor = micros[i].weight.value() * rank.world_size();
        scale(sum(ddp(batch.x)), factor).backward();
      };
      if (i + 1 < micros.size()) {
        const NoSync no_sync(ddp);
        backward();
      } else {
        backward();
      }
    }
    optimizer.step();
  }
}

Certificate certificate_of(const DrawnRun& run, std::int32_t n_ranks) {
  return certify({.ranks = n_ranks, .objective = Objective::token_mean()},
                 [&](RankContext& rank, Probe& probe) { train(run, rank, probe); });
}

void set_objective_weights(DrawnRun& run) {
  for (auto& window : run) {
    const Fraction weight(1, total_tokens(window));
    for (auto& rank : window) {
      for (DrawnMicro& micro : rank) micro.weight = weight;
    }
  }
}

RC_GTEST_PROP(CertificateProperty, IsGivenForTheObjectivesWeights, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(1, 6);
  DrawnRun run = draw_counts(n_ranks);
  set_objective_weights(run);
  const Certificate certificate = certificate_of(run, n_ranks);
  RC_ASSERT(certificate.certified());
  RC_ASSERT(certificate.windows.size() == run.size());
}

RC_GTEST_PROP(CertificateProperty, IsRefusedForOneWrongWeightAndSaysWhere, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(1, 6);
  DrawnRun run = draw_counts(n_ranks);
  set_objective_weights(run);
  const auto window = *rc::gen::inRange<std::size_t>(0, run.size());
  const auto rank = *rc::gen::inRange<std::size_t>(0, run[window].size());
  const auto micro = *rc::gen::inRange<std::size_t>(0, run[window][rank].size());
  // As close to right as one more token in the whole window would make it.
  DrawnMicro& wrong = run[window][rank][micro];
  wrong.weight = Fraction(1, total_tokens(run[window]) + *rc::gen::element(1, 100));
  const Certificate certificate = certificate_of(run, n_ranks);
  RC_ASSERT(!certificate.certified());
  RC_ASSERT(certificate.fault().place.window == window);
  std::size_t n_wrong = 0;
  for (const WeightRow& row : certificate.windows[window].rows) {
    if (row.is_right()) continue;
    ++n_wrong;
    RC_ASSERT(row.rank == static_cast<std::int32_t>(rank));
    RC_ASSERT(row.micro == static_cast<std::int64_t>(micro));
    RC_ASSERT(row.weight == wrong.weight);
  }
  RC_ASSERT(n_wrong == 1U);
}

RC_GTEST_PROP(CertificateProperty, ShowsTheWeightsThatWereDrawn, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(1, 6);
  DrawnRun run = draw_counts(n_ranks);
  bool right = true;
  for (auto& window : run) {
    const Fraction asked(1, total_tokens(window));
    for (auto& rank : window) {
      for (DrawnMicro& micro : rank) {
        const auto numerator = *rc::gen::inRange<std::int64_t>(1, 12);
        micro.weight = Fraction(numerator, *rc::gen::inRange<std::int64_t>(1, 500));
        right = right && micro.weight == asked;
      }
    }
  }
  const Certificate certificate = certificate_of(run, n_ranks);
  RC_ASSERT(certificate.certified() == right);
  for (std::size_t w = 0; w < run.size(); ++w) {
    for (const WeightRow& row : certificate.windows[w].rows) {
      const auto rank = static_cast<std::size_t>(row.rank);
      RC_ASSERT(row.weight == run[w][rank][static_cast<std::size_t>(row.micro)].weight);
    }
  }
}

}  // namespace

}  // namespace lockstep
