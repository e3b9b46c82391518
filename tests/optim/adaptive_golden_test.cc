// Fifty steps of Adam, AdamW, Adagrad and RMSprop, bit for bit against a real PyTorch.
#include <memory>

#include <gtest/gtest.h>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/rmsprop.h"

#include "tests/golden/golden_bits.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

constexpr std::size_t kElements = 11;
constexpr int kSteps = 50;

/// The value of "key=value" among the arguments, or what it is by default.
double option(const golden::Case& one, const std::string& key, double otherwise) {
  for (const std::string& word : one.arguments) {
    if (word.starts_with(key + "=")) return parse_double(word.substr(key.size() + 1)).value();
  }
  return otherwise;
}

AdamOptions adam_options(const golden::Case& one) {
  return {.lr = option(one, "lr", 1e-3),
          .beta1 = option(one, "beta1", 0.9),
          .beta2 = option(one, "beta2", 0.999),
          .eps = option(one, "eps", 1e-8),
          .weight_decay = option(one, "weight_decay", one.kind == "adamw" ? 1e-2 : 0.0),
          .amsgrad = option(one, "amsgrad", 0) != 0,
          .maximize = option(one, "maximize", 0) != 0,
          .compat = option(one, "lerp", 0) != 0 ? Compat::kTorch2 : Compat::kTorch1};
}

std::unique_ptr<Optimizer> make(const golden::Case& one, const Variable& parameter) {
  if (one.kind == "adam") return std::make_unique<Adam>(std::vector{parameter}, adam_options(one));
  if (one.kind == "adamw") {
    return std::make_unique<AdamW>(std::vector{parameter}, adam_options(one));
  }
  if (one.kind == "adagrad") {
    const AdagradOptions options{
        .lr = option(one, "lr", 1e-2),
        .lr_decay = option(one, "lr_decay", 0),
        .weight_decay = option(one, "weight_decay", 0),
        .initial_accumulator_value = option(one, "initial_accumulator_value", 0),
        .eps = option(one, "eps", 1e-10),
        .maximize = option(one, "maximize", 0) != 0};
    return std::make_unique<Adagrad>(std::vector{parameter}, options);
  }
  const RmspropOptions options{
      .lr = option(one, "lr", 1e-2),
      .alpha = option(one, "alpha", 0.99),
      .eps = option(one, "eps", 1e-8),
      .weight_decay = option(one, "weight_decay", 0),
      .momentum = option(one, "momentum", 0),
      .centered = option(one, "centered", 0) != 0,
      .maximize = option(one, "maximize", 0) != 0,
      .compat = option(one, "lerp", 0) != 0 ? Compat::kTorch2 : Compat::kTorch1};
  return std::make_unique<Rmsprop>(std::vector{parameter}, options);
}

/// The words of the golden file's right side, computed here.
std::string train(const golden::Case& one) {
  PlainRuntime rt;
  const std::vector<std::string> inputs =
      golden::words_of(one.values.substr(0, one.values.find(" | ")));
  const DType dtype = parse_dtype(one.arguments.at(0)).value();
  golden::WordReader reader(one.values);
  const Variable parameter(reader.take(rt, {kElements}, dtype), true);
  const std::unique_ptr<Optimizer> optimizer = make(one, parameter);
  std::vector<std::string> words;
  std::size_t next = kElements;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<double> grad;
    for (std::size_t i = 0; i < kElements; ++i) {
      grad.push_back(parse_double(inputs.at(next++)).value() / 8);
    }
    parameter.set_grad(rt.tensor({kElements}, grad, dtype));
    optimizer->step();
    if (step == 1 || step == 2 || step == 10 || step == 50) {
      golden::append(words, parameter.data());
    }
  }
  for (const StateList& list : optimizer->state()) {
    if (list.is_count) {
      EXPECT_EQ(list.tensors[0].item(), kSteps);
      continue;
    }
    words.push_back(list.name);
    golden::append(words, list.tensors[0]);
  }
  return join(words, " ");
}

TEST(AdaptiveGoldenTest, FiftyStepsHaveTheBitsOfPyTorch) {
  int n_cases = 0;
  for (golden::Case one : golden::read("optim.txt")) {
    if (one.kind == "clip") continue;
    ++n_cases;
    const std::string wanted = one.values.substr(one.values.find(" | ") + 3);

    EXPECT_EQ(train(one), wanted) << one.text();

    one.arguments.insert(one.arguments.begin() + 1, "eps=0.0009");
    EXPECT_NE(train(one), wanted) << one.text();
  }
  EXPECT_EQ(n_cases, 36);
}

TEST(AdaptiveGoldenTest, TheLerpOfPyTorch2IsNoticed) {
  for (golden::Case one : golden::read("optim.txt")) {
    if (!one.kind.starts_with("adam")) continue;
    one.arguments.push_back("lerp=1");

    EXPECT_NE(train(one), one.values.substr(one.values.find(" | ") + 3)) << one.text();
  }
}

}  // namespace
}  // namespace lockstep::optim
