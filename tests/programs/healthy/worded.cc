// What a program has to say in words, right and wrong: denominators of losses, metrics other than
// means.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// Eight tokens a step: rank 0 reads them in two micro-steps, rank 1 in one. `denominator(tokens)` is
/// what the loss of that many is divided by.
template <typename Denominator>
void reads_tokens(RankContext& rank, Denominator denominator) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const std::vector<std::int64_t> micros =
      rank.rank() == 0 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{4};
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    for (const std::int64_t& tokens : micros) {
      const auto backward = [&] {
        const Batch batch = batch_of(rank, 3 * step + tokens, tokens);
        const Variable z = ddp(batch.x);
        rank.annotate().batch({.n_samples = tokens,
                               .n_tokens = tokens,
                               .denominator = denominator(tokens),
                               .declared = "token-mean"});
        mse_loss(z, batch.y, denominator(tokens)).backward();
      };
      if (&tokens == &micros.back()) {
        backward();
      } else {
        const NoSync no_sync(ddp);
        backward();
      }
    }
    optimizer.step();
  }
}

// The wrapper divides by two ranks, the losses by half of all tokens.
void windows_weighted_by_tokens(RankContext& rank) {
  reads_tokens(rank, [](std::int64_t /*tokens*/) { return 4.0; });
}

void windows_of_means(RankContext& rank) {
  reads_tokens(rank, [](std::int64_t tokens) { return static_cast<double>(tokens); });
}

/// Sums of predictions, targets, their squares and products.
struct Sums {
  std::vector<double> values = std::vector<double>(6, 0.0);

  void add(double x, double y) {
    const double terms[] = {1.0, x, y, x * x, y * y, x * y};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += terms[i];
  }

  double correlation() const {
    const double n = values[0];
    const double xy = values[5] - values[1] * values[2] / n;
    const double xx = values[3] - values[1] * values[1] / n;
    const double yy = values[4] - values[2] * values[2] / n;
    return xy / std::sqrt(xx * yy);
  }
};

/// Each rank predicts its five of ten rows; correlation_of(sums) is what is reported.
template <typename Correlation>
void evaluates(RankContext& rank, Correlation correlation_of) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  train_step(ddp, optimizer, batch_of(rank, 0));

  const NoGradGuard no_grad(rank.runtime());
  model.eval();
  std::vector<std::int64_t> ids;
  for (std::int64_t id = rank.rank(); id < 10; id += rank.world().size()) ids.push_back(id);
  const Batch rows = rows_of(rank, ids);
  const Tensor predicted = model(rows.x).data();
  rank.annotate().samples(ids, "eval");
  Sums sums;
  std::vector<double> parts;
  for (std::int64_t i = 0; i < predicted.n_elems(); ++i) {
    sums.add(predicted.at(i), rows.y.at(i));
    parts.push_back(predicted.at(i));
    parts.push_back(rows.y.at(i));
  }
  rank.annotate().metric(
      "correlation",
      {.value = correlation_of(sums), .parts = parts, .formula = MetricFormula::kPearson});
  model.train();
}

void correlation_over_all_ranks(RankContext& rank) {
  evaluates(rank, [&](Sums sums) {
    rank.world().all_reduce(Memory::of(std::span(sums.values))).wait_or_throw();
    return sums.correlation();
  });
}

void mean_of_the_ranks_correlations(RankContext& rank) {
  evaluates(rank, [&](const Sums& sums) {
    return summed(rank.world(), sums.correlation()) / rank.world().size();
  });
}

}  // namespace

std::vector<HealthyProgram> worded_programs() {
  return {
      {.name = "WindowsWeightedByTokens", .program = windows_weighted_by_tokens},
      {.name = "CorrelationOverAllRanks", .program = correlation_over_all_ranks},
  };
}

std::vector<BrokenTwin> worded_twins() {
  return {
      {.name = "WindowsOfMeans",
       .program = windows_of_means,
       .law = "gradient-mean",
       .says = "rank 0: 0.125, 0.375; rank 1: 0.5"},
      {.name = "MeanOfTheRanksCorrelations",
       .program = mean_of_the_ranks_correlations,
       .law = "metric-true",
       .says = "mean of the ranks' own values"},
  };
}

}  // namespace lockstep::programs
