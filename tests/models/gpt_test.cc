// A small GPT: initial weights bit for bit and values within rounding against PyTorch
// (tests/golden/gpt.txt), tied weights, causality, and differences.
#include "lockstep/models/gpt.h"

#include <gtest/gtest.h>

#include "tests/functional/gradient_check.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/gpt_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;

std::istringstream words_of(const golden::Case& one) {
  return std::istringstream(join(one.arguments, " "));
}

TEST(GptTest, InitialWeightsEqualTorchFromSevenSeeds) {
  PlainRuntime rt;
  int n_cases = 0;
  for (const golden::Case& one : golden::read("gpt.txt")) {
    if (one.kind != "init") continue;
    std::istringstream words = words_of(one);
    Gpt model(rt, golden::read_gpt_options(words));
    Generator generator(static_cast<std::uint64_t>(one.integer(7)));
    model.reset_parameters(generator);
    std::vector<std::int64_t> bits;
    for (const Variable& parameter : model.parameters()) {
      for (const float value : parameter.data().span<float>()) {
        bits.push_back(std::bit_cast<std::int32_t>(value));
      }
    }
    EXPECT_EQ(golden::listed(bits), one.values) << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 21);
}

std::string check_model(const golden::Case& one, const GptOptions& change) {
  PlainRuntime rt;
  std::istringstream words = words_of(one);
  golden::GptCase gpt = golden::read_gpt_case(words);
  gpt.options.causal = change.causal;
  std::istringstream balls(one.values);
  return golden::inside_balls(balls, golden::run_gpt(rt, gpt));
}

TEST(GptTest, LogitsLossAndGradientsAreThoseOfTorchWithinRounding) {
  int n_cases = 0;
  for (const golden::Case& one : golden::read("gpt.txt")) {
    if (one.kind != "model") continue;
    EXPECT_EQ(check_model(one, {}), "ok") << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 3);
}

TEST(GptTest, ALeakyMaskIsNoticed) {
  for (const golden::Case& one : golden::read("gpt.txt")) {
    if (one.kind != "model") continue;
    EXPECT_NE(check_model(one, {.causal = false}), "ok") << one.text();
  }
}

constexpr GptOptions kTiny{
    .vocab = 4, .context = 3, .layers = 1, .heads = 2, .width = 4, .dtype = DType::kF64};

void fill(Gpt& model) {
  Generator generator(1);
  for (const Variable& parameter : model.parameters()) {
    init::normal(parameter.data(), generator, 0.0, 0.5);
  }
}

std::vector<double> logits_of(Gpt& model, PlainRuntime& rt, std::initializer_list<double> tokens) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  return values_of(model(Variable(rt.tensor({1, n}, tokens, DType::kI64))).data());
}

TEST(GptTest, ALaterTokenChangesNoEarlierLogit) {
  PlainRuntime rt;
  Gpt model(rt, kTiny);
  fill(model);

  const std::vector<double> before = logits_of(model, rt, {1, 2, 0});
  const std::vector<double> after = logits_of(model, rt, {1, 2, 3});

  EXPECT_EQ(std::vector(before.begin(), before.begin() + 8),
            std::vector(after.begin(), after.begin() + 8));
  EXPECT_NE(before, after);
}

TEST(GptTest, WithoutTheMaskTheFutureLeaksIntoThePast) {
  PlainRuntime rt;
  GptOptions options = kTiny;
  options.causal = false;
  Gpt model(rt, options);
  fill(model);

  const std::vector<double> before = logits_of(model, rt, {1, 2, 0});
  const std::vector<double> after = logits_of(model, rt, {1, 2, 3});

  EXPECT_NE(std::vector(before.begin(), before.begin() + 8),
            std::vector(after.begin(), after.begin() + 8));
}

TEST(GptTest, ATiedHeadIsListedOnceUnderItsFirstName) {
  PlainRuntime rt;
  const Gpt tied(rt, kTiny);
  GptOptions options = kTiny;
  options.tied = false;
  const Gpt untied(rt, options);

  EXPECT_EQ(tied.named_parameters().front().name, "wte.weight");
  EXPECT_EQ(tied.named_parameters().back().name, "ln_f.bias");
  EXPECT_EQ(untied.named_parameters().back().name, "lm_head.weight");
  EXPECT_EQ(tied.named_parameters()[2].name, "h.0.ln_1.weight");
  EXPECT_EQ(tied.named_parameters().size() + 1, untied.named_parameters().size());
}

Tensor gradient_of(const Gpt& model, const std::string& name) {
  for (const NamedVariable& named : model.named_parameters()) {
    if (named.name == name) return named.variable.grad();
  }
  return {};
}

// The same numbers in an untied model: its two gradients add up to the tied one. The engine adds
// the head's contribution, which arrives first, and the table's: one rounding.
TEST(GptTest, BothUsesOfATiedWeightAddUp) {
  PlainRuntime rt;
  GptOptions options = kTiny;
  Gpt tied(rt, options);
  options.tied = false;
  Gpt untied(rt, options);
  fill(tied);
  const auto source = tied.parameters();
  const auto copies = untied.parameters();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    rt.kernels().copy(copies[i].data(), source[i == source.size() ? 0 : i].data());
  }
  const Tensor tokens = rt.tensor({1, 3}, {1, 2, 2}, DType::kI64);
  const Tensor targets = rt.tensor({3}, {2, 2, 0}, DType::kI64);

  for (Gpt* model : {&tied, &untied}) {
    CrossEntropyLoss()((*model)(Variable(tokens)), targets).backward();
  }

  const Tensor whole = gradient_of(tied, "wte.weight");
  const Tensor table = gradient_of(untied, "wte.weight");
  const Tensor head = gradient_of(untied, "lm_head.weight");
  EXPECT_NE(values_of(whole), values_of(table));  // The twin: an untied copy learns less.
  EXPECT_NE(values_of(whole), values_of(head));
  for (std::int64_t i = 0; i < whole.n_elems(); ++i) {
    EXPECT_EQ(whole.at(i), head.at(i) + table.at(i)) << i;
  }
}

TEST(GptTest, ABlockHasTheGradientOfDifferences) {
  PlainRuntime rt;
  Generator masks;
  GptBlock block(rt, kTiny, masks);
  Generator generator(2);
  std::vector<Variable> inputs = block.parameters();
  inputs.emplace_back(Tensor::zeros(rt, {6, 4}, DType::kF64), true);
  for (const Variable& input : inputs) init::normal(input.data(), generator, 0.0, 0.5);
  block.attention().set_batch(2);
  const Variable weights(Tensor::zeros(rt, {6, 4}, DType::kF64));
  init::normal(weights.data(), generator);

  const auto f = [&](const std::vector<Variable>& in) {
    return sum(mul(block(in.back()), weights));
  };

  EXPECT_EQ(testing::compare_gradients(f, inputs, testing::Tolerance::kSmooth, 1000), "");
}

TEST(GptTest, DropoutIsOffInEvaluation) {
  PlainRuntime rt;
  GptOptions options = kTiny;
  options.dropout = 0.5;
  Gpt model(rt, options);
  fill(model);
  const std::vector<double> trained = logits_of(model, rt, {1, 2, 0});
  model.eval();

  const std::vector<double> first = logits_of(model, rt, {1, 2, 0});

  EXPECT_EQ(first, logits_of(model, rt, {1, 2, 0}));
  EXPECT_NE(first, trained);
}

TEST(GptTest, WhatItCannotReadIsRefused) {
  PlainRuntime rt;
  Gpt model(rt, kTiny);

  EXPECT_THROW(logits_of(model, rt, {0, 1, 2, 3}), ContractViolation);  // Longer than its context.
  EXPECT_THROW(logits_of(model, rt, {4}), ContractViolation);           // No such token.
  EXPECT_THROW(Gpt(rt, {.vocab = 2, .heads = 2, .width = 3}), ContractViolation);
}

TEST(GptTest, AnIgnoredTargetCountsForNothing) {
  PlainRuntime rt;
  const auto logits = [&] { return Variable(rt.tensor({3, 2}, {0, 0, 1, 3, 0, 0}), true); };
  const Variable with = logits();
  const Variable without = Variable(rt.tensor({2, 2}, {0, 0, 0, 0}), true);

  const Variable loss = CrossEntropyLoss()(with, rt.tensor({3}, {1, -100, 0}, DType::kI64));
  loss.backward();
  const Variable wanted = CrossEntropyLoss()(without, rt.tensor({2}, {1, 0}, DType::kI64));

  EXPECT_EQ(loss.item(), wanted.item());
  EXPECT_EQ(values_of(with.grad()), (std::vector<double>{0.25, -0.25, 0, 0, -0.25, 0.25}));
  EXPECT_TRUE(std::isnan(
      CrossEntropyLoss()(logits(), rt.tensor({3}, {-100, -100, -100}, DType::kI64)).item()));
  EXPECT_THROW(CrossEntropyLoss()(logits(), rt.tensor({3}, {1, 1, -1}, DType::kI64)),
               ContractViolation);
}

}  // namespace
}  // namespace lockstep::nn
