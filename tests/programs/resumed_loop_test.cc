// A loop that is resumed from a snapshot of the model and the number of epochs run: resumed as it should be, at epoch 0
// again, and not at all, because another file is looked for than the one that was saved.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"

#include "tests/programs/training.h"

namespace lockstep::programs {
namespace {

constexpr std::int64_t kEpochs = 4;
constexpr std::int64_t kRunAtFirst = 2;
constexpr std::int64_t kRows = 3;  ///< Of each rank.

/// What a second start of the script does.
struct Resumption {
  std::string looks_for = "ckpt/snapshot.pt";
  bool from_epoch_0 = false;
};

/// What a rank ends with.
struct Trained {
  double weight = 0.0;
  std::int64_t n_steps = 0;  ///< Of both starts together.
};

double rate_of(std::int64_t epoch) { return std::ldexp(0.125, -static_cast<int>(epoch)); }

double input_of(std::int64_t rank, std::int64_t row) {
  return static_cast<double>(1 + (rank + row) % 2);
}

/// y = w * x.
struct Slope {
  explicit Slope(Runtime& runtime) : weight(Tensor::full(runtime, {1}, DType::kF64, 0.0), true) {}

  Variable forward(const Variable& x) const { return mul(weight, x); }

  std::vector<NamedVariable> named_parameters() const { return {{"weight", weight}}; }

  std::vector<NamedVariable> named_buffers() const { return {}; }

  bool is_training() const { return true; }

  Variable weight;
};

/// One start of the script: loads what it finds, trains up to `last`, saves after each epoch.
std::int64_t start(RankContext& rank, const Resumption& how, std::int64_t last, double& weight) {
  Slope model(rank.runtime());
  std::int64_t first = 0;
  const Result<std::string> found = rank.host().files().read(how.looks_for);
  if (found.ok()) {
    const std::vector<std::string_view> words = split(found.value(), ' ');
    model.weight.data().span<double>()[0] = *parse_double(words[0]);
    if (!how.from_epoch_0) first = *parse_int(words[1]);
  }
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer({model.weight}, {.lr = 1.0});
  std::int64_t n_steps = 0;
  for (std::int64_t epoch = first; epoch < last; ++epoch) {
    optimizer.set_lr(rate_of(epoch));
    for (std::int64_t row = 0; row < kRows; ++row, ++n_steps) {
      const double x = input_of(rank.rank(), row);
      optimizer.zero_grad();
      const auto tensor = [&](double value) {
        return Tensor::full(rank.runtime(), {1}, DType::kF64, value);
      };
      mse_loss(ddp(Variable(tensor(x))), tensor(1.0)).backward();
      optimizer.step();
    }
    rank.world().barrier().wait_or_throw();
    if (rank.rank() == 0) {
      save_file(rank,
                "ckpt/snapshot.pt",
                exact(model.weight.data().item()) + " " + std::to_string(epoch + 1));
    }
    rank.world().barrier().wait_or_throw();
  }
  weight = model.weight.data().item();
  return n_steps;
}

/// Two starts on two ranks: the first one ends after kRunAtFirst epochs.
Trained train(const Resumption& how) {
  const auto run = run_ranks({.ranks = 2}, [&how](RankContext& rank) {
    Trained trained;
    trained.n_steps = start(rank, how, kRunAtFirst, trained.weight);
    trained.n_steps += start(rank, how, kEpochs, trained.weight);
    return trained;
  });
  EXPECT_EQ(run.results[0]->weight, run.results[1]->weight);
  return *run.results[0];
}

/// The same by plain arithmetic: the mean of two gradients 2 x (w x - 1), epoch by epoch.
double by_hand(const std::vector<std::int64_t>& epochs, double weight = 0.0) {
  for (const std::int64_t epoch : epochs) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      double sum = 0.0;
      for (const std::int64_t rank : {0, 1}) {
        const double x = input_of(rank, row);
        sum += 2.0 * x * (weight * x - 1.0) / 2.0;
      }
      weight -= rate_of(epoch) * sum;
    }
  }
  return weight;
}

TEST(ResumedLoopTest, ResumedAtTheNumberOfEpochsRunItEndsLikeARunWithoutAnEnd) {
  const Trained trained = train({});
  EXPECT_EQ(trained.n_steps, kEpochs * kRows);
  EXPECT_EQ(trained.weight, by_hand({0, 1, 2, 3}));
}

// EPOCHS_RUN is saved and never read: the resumed loop makes the first epochs again, at their rates.
TEST(ResumedLoopTest, ResumedAtEpoch0ItMakesStepsTwiceAndEndsElsewhere) {
  const Trained trained = train({.from_epoch_0 = true});
  EXPECT_EQ(trained.n_steps, (kRunAtFirst + kEpochs) * kRows);
  EXPECT_EQ(trained.weight, by_hand({0, 1, 0, 1, 2, 3}));
  EXPECT_NE(trained.weight, by_hand({0, 1, 2, 3}));
}

// "snapshot.pt" is saved and "snapshot" looked for: nothing is found, and the script does not say so.
TEST(ResumedLoopTest, WhereAnotherFileIsLookedForTheResumptionNeverHappens) {
  const Trained trained = train({.looks_for = "ckpt/snapshot"});
  EXPECT_EQ(trained.n_steps, (kRunAtFirst + kEpochs) * kRows)
      << "twice the steps of the first start";
  EXPECT_EQ(trained.weight, by_hand({0, 1, 2, 3}))
      << "and, as long as nothing is drawn, the same end";
}

}  // namespace
}  // namespace lockstep::programs
