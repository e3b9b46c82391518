// A training script that a tutorial prints, line by line: barriers, an all_reduce of the loss that adds and is divided by
// the length of the loader, epochs counted from 1, the batch of 6 divided by the number of ranks, and a validation that
// looks at the batch which training left behind. PyTorch printed what it prints (tests/golden/make_full_script.py).
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"

#include "tests/programs/training.h"

namespace lockstep::programs {
namespace {

constexpr std::int64_t kGlobalBatch = 6;
constexpr std::int64_t kFeatures = 4;

/// What one rank is to do otherwise than the script as it is printed.
struct ScriptForm {
  bool fixed = false;  ///< Validation looks at its own batch.
  std::int64_t n_epochs = 30;
};

/// Row `index` of a set that begins at `offset`: small dyadic numbers.
Batch rows_at(RankContext& rank, const std::vector<std::int64_t>& indices, std::int64_t offset) {
  std::vector<double> x;
  std::vector<double> y;
  for (const std::int64_t index : indices) {
    const std::int64_t i = index + offset;
    for (std::int64_t j = 0; j < kFeatures; ++j) {
      x.push_back(static_cast<double>((7 * i + 3 * j) % 11 - 5) / 8.0);
    }
    y.push_back(static_cast<double>((5 * i) % 13 - 6) / 4.0);
  }
  const auto n = static_cast<std::int64_t>(indices.size());
  return {Variable(Tensor::of(rank.runtime(), {n, kFeatures}, DType::kF64, x)),
          Tensor::of(rank.runtime(), {n, 1}, DType::kF64, y)};
}

/// A loader's batches, in order.
std::vector<std::vector<std::int64_t>> batches_of(const data::DistributedSampler& sampler,
                                                  std::int64_t batch) {
  std::vector<std::int64_t> indices;
  sampler.indices(indices);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i % static_cast<std::size_t>(batch) == 0) batches.emplace_back();
    batches.back().push_back(indices[i]);
  }
  return batches;
}

std::string hex(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

/// The model with what each rank begins with: the wrapper sends rank 0's.
void initialize(nn::Linear& model, std::int32_t rank) {
  const std::span<double> weight = model.named_parameters()[0].variable.data().span<double>();
  constexpr double kWeights[] = {0.5, -0.25, 0.125, 1.0};
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = kWeights[i] + rank;
  model.named_parameters()[1].variable.data().span<double>()[0] = 0.25 + rank;
}

/// The mean of a split as the script prints it: the sum over ranks, divided by this rank's batches.
double validate(RankContext& rank,
                const DistributedDataParallel<nn::Linear>& ddp,
                const data::DistributedSampler& sampler,
                Batch left_behind,
                const ScriptForm& form) {
  const NoGradGuard no_grad(rank.runtime());
  double total = 0.0;
  const auto batches = batches_of(sampler, 1);
  for (const std::vector<std::int64_t>& own : batches) {
    if (form.fixed) left_behind = rows_at(rank, own, 100);
    total +=
        summed(rank.world(), l1_loss(ddp.module().forward(left_behind.x), left_behind.y).item());
  }
  return total / static_cast<double>(batches.size());
}

/// The script. Returns: what rank 0 prints.
std::vector<std::string> script(RankContext& rank, const ScriptForm& form) {
  if (kGlobalBatch % rank.world_size() != 0) {
    throw std::logic_error("AssertionError: the global batch must divide");
  }
  const std::int64_t batch = kGlobalBatch / rank.world_size();
  Generator unused(0);
  nn::Linear model(rank.runtime(), kFeatures, 1, unused, {.dtype = DType::kF64});
  initialize(model, rank.rank());
  DistributedDataParallel ddp(model, rank.world());
  data::DistributedSampler sampler(rank, {.size = 34});
  const data::DistributedSampler valid(rank, {.size = 10, .shuffle = false, .split = "valid"});
  optim::Adam optimizer(model.parameters(), {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95});
  optim::RuleLr schedule(optimizer, optim::CosineAnnealingLr{.t_max = 30, .eta_min = 1e-6});
  std::vector<std::string> printed;
  for (std::int64_t epoch = 1; epoch <= form.n_epochs; ++epoch) {
    rank.world().barrier().wait_or_throw();
    sampler.set_epoch(epoch);
    double total = 0.0;
    Batch data;
    const auto batches = batches_of(sampler, batch);
    for (const std::vector<std::int64_t>& own : batches) {
      data = rows_at(rank, own, 0);
      optimizer.zero_grad();
      const Variable loss = l1_loss(ddp(data.x), data.y);
      loss.backward();
      optimizer.step();
      total += summed(rank.world(), loss.item());
    }
    const double of_valid = validate(rank, ddp, valid, data, form);
    rank.world().barrier().wait_or_throw();
    schedule.step();
    printed.push_back(std::to_string(epoch) + " " +
                      hex(total / static_cast<double>(batches.size())) + " " + hex(of_valid) + " " +
                      hex(optimizer.lr()));
  }
  std::string weights = "weights";
  for (const NamedVariable& parameter : model.named_parameters()) {
    for (const double value : parameter.variable.data().read_span<double>())
      weights += " " + hex(value);
  }
  printed.push_back(weights);
  return printed;
}

/// What PyTorch printed, by the form of the script.
std::map<std::string, std::vector<std::string>> golden() {
  std::map<std::string, std::vector<std::string>> forms;
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/full_script_torch2.txt");
  std::string form;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("form ")) {
      form = line.substr(5);
      continue;
    }
    std::string as_printf;  // Python writes all 13 digits of a fraction, printf those that count.
    std::size_t at = 0;
    while (at <= line.size()) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      const std::string word = line.substr(at, end - at);
      if (!as_printf.empty()) as_printf += ' ';
      as_printf += word.find("0x") == std::string::npos ? word : hex(std::stod(word));
      at = end + 1;
    }
    forms[form].push_back(as_printf);
  }
  return forms;
}

RunResult<std::vector<std::string>> run_script(std::int32_t ranks, const ScriptForm& form) {
  return run_ranks({.ranks = ranks, .reduction_order = ReductionOrder::kGlooRing, .rethrow = false},
                   [form](RankContext& rank) { return script(rank, form); });
}

std::string column(const std::string& line, int number) {
  std::size_t at = 0;
  for (int i = 0; i < number; ++i) at = line.find(' ', at) + 1;
  return line.substr(at, line.find(' ', at) - at);
}

// Thirty epochs on three ranks: rates, weights and the printed losses of training have PyTorch's bits.
//
// A product of four terms is added in an order that PyTorch leaves to its library. A loss is
// |y - (w . x + b)|, whose five terms add up to less than 4 in absolute value: two orders of them are apart by
// less than 2 * 5 * 4 * 2^-53. The printed loss of validation is a quarter of the sum of 12 losses, so it may be off by
// 120 * 2^-53, and by 96 * 2^-53 for adding up 12 losses below 8.
TEST(FullScriptTest, PrintsWhatPyTorchPrintsInBothForms) {
  for (const bool fixed : {false, true}) {
    const auto run = run_script(3, {.fixed = fixed});
    ASSERT_TRUE(run.results[0].has_value()) << run;
    const std::vector<std::string>& printed = *run.results[0];
    const std::vector<std::string> wanted = golden().at(fixed ? "fixed" : "printed");
    ASSERT_EQ(printed.size(), wanted.size());
    EXPECT_EQ(printed.back(), wanted.back()) << "the weights";
    for (std::size_t epoch = 0; epoch + 1 < wanted.size(); ++epoch) {
      EXPECT_EQ(column(printed[epoch], 1), column(wanted[epoch], 1)) << "training";
      EXPECT_EQ(column(printed[epoch], 3), column(wanted[epoch], 3)) << "the rate";
      EXPECT_NEAR(
          std::stod(column(printed[epoch], 2)), std::stod(column(wanted[epoch], 2)), 216 * 0x1p-53);
    }
    EXPECT_EQ(*run.results[1], printed) << "ranks print the same";
  }
}

// The twin: what is printed of validation depends on which batch it looks at, and of training not.
TEST(FullScriptTest, ValidationOnTheLastTrainingBatchPrintsOtherNumbers) {
  const auto wanted = golden();
  for (std::size_t epoch = 0; epoch < 30; ++epoch) {
    const std::string& printed = wanted.at("printed")[epoch];
    const std::string& fixed = wanted.at("fixed")[epoch];
    EXPECT_EQ(column(printed, 1), column(fixed, 1));
    EXPECT_NE(column(printed, 2), column(fixed, 2));
  }
}

// The sum of the ranks' losses is printed for their mean: with one rank it is the mean.
TEST(FullScriptTest, ThePrintedLossGrowsWithTheNumberOfRanks) {
  const auto first_loss = [](std::int32_t ranks) {
    const auto run = run_script(ranks, {.n_epochs = 1});
    const std::string line = run.results[0]->front();
    return std::stod(line.substr(line.find(' ') + 1));
  };
  const double one = first_loss(1);
  for (const std::int32_t ranks : {2, 3, 6}) {
    EXPECT_NEAR(first_loss(ranks) / ranks, one, 0.1 * one) << "the mean over the epoch's steps";
    EXPECT_GT(first_loss(ranks), 1.8 * one);
  }
}

// The script's own variable names four GPUs, which do not divide a batch of 6: its assert fires on every rank.
TEST(FullScriptTest, OnFourRanksItsOwnAssertFires) {
  const auto run = run_script(4, {.n_epochs = 1});
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_THAT(run.report.error, ::testing::HasSubstr("the global batch must divide"));
  EXPECT_FALSE(run_script(3, {.n_epochs = 1}).failure.has_value());
}

}  // namespace
}  // namespace lockstep::programs
