// Fifty steps of every optimizer, bit for bit against PyTorch 1.13 and 2.15.
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/optim/optimizer_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

constexpr std::size_t kElements = 11;
constexpr int kSteps = 50;

/// What a gradient's whole numbers are parts of.
double per_unit(const golden::Case& one) { return option(one, "rough", 0) != 0 ? 7.0 : 8.0; }

/// The words of the golden file's right side, computed here.
std::string train(const golden::Case& one) {
  PlainRuntime rt;
  const std::vector<std::string> inputs =
      golden::words_of(one.values.substr(0, one.values.find(" | ")));
  const DType dtype = parse_enum<DType>(one.arguments.at(0)).value();
  golden::WordReader reader(one.values);
  const Variable parameter(reader.take(rt, {kElements}, dtype), true);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(one, parameter);
  std::vector<std::string> words;
  std::size_t next = kElements;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<double> grad;
    for (std::size_t i = 0; i < kElements; ++i) {
      grad.push_back(parse_double(inputs.at(next++)).value() / per_unit(one));
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

std::string wanted_of(const golden::Case& one) {
  return one.values.substr(one.values.find(" | ") + 3);
}

TEST(OptimizerGoldenTest, FiftyStepsHaveTheBitsOfPyTorch) {
  int n_cases = 0;
  for (const golden::Case& one : golden::read("optim.txt")) {
    if (one.kind == "clip") continue;
    ++n_cases;

    EXPECT_EQ(train(one), wanted_of(one)) << one.text();
  }
  EXPECT_EQ(n_cases, 58);
}

TEST(OptimizerGoldenTest, FiftyStepsHaveTheBitsOfPyTorch2) {
  const std::vector<golden::Case> results = golden::read("optim_torch2.txt");
  ASSERT_EQ(results.size(), 58U);
  std::size_t next = 0;
  for (golden::Case one : golden::read("optim.txt")) {
    if (one.kind == "clip") continue;
    const golden::Case& wanted = results[next++];
    ASSERT_EQ(one.text(), wanted.text());
    one.arguments.push_back("lerp=1");

    EXPECT_EQ(train(one), wanted.values) << one.text();
  }
}

/// The case with one more option before its own, where it wins.
golden::Case with(golden::Case one, const std::string& option) {
  one.arguments.insert(one.arguments.begin() + 1, option);
  return one;
}

TEST(OptimizerGoldenTest, ASlightlyDifferentOptionIsNoticed) {
  for (const golden::Case& one : golden::read("optim.txt")) {
    if (one.kind == "clip") continue;
    const golden::Case twin = with(one, one.kind == "sgd" ? "lr=0.1000001" : "eps=0.0009");

    EXPECT_NE(train(twin), wanted_of(one)) << one.text();
  }
}

TEST(OptimizerGoldenTest, TheLerpOfPyTorch2IsNoticed) {
  for (const golden::Case& one : golden::read("optim.txt")) {
    if (!one.kind.starts_with("adam")) continue;

    EXPECT_NE(train(with(one, "lerp=1")), wanted_of(one)) << one.text();
  }
}

TEST(OptimizerGoldenTest, CoupledAndDecoupledDecayAreNotTakenForEachOther) {
  int n_decayed = 0;
  for (const golden::Case& one : golden::read("optim.txt")) {
    const double decay = option(one, "weight_decay", one.kind == "adamw" ? 1e-2 : 0.0);
    if (!one.kind.starts_with("adam") || decay == 0.0) continue;
    ++n_decayed;
    golden::Case twin = with(one, "weight_decay=" + exact(decay));
    twin.kind = one.kind == "adam" ? "adamw" : "adam";

    EXPECT_NE(train(twin), wanted_of(one)) << one.text();
  }
  EXPECT_EQ(n_decayed, 16);
}

/// One step of Adam without weight decay, written down directly: the parameter after it.
/// `fused`: the second moment with one rounding fewer than PyTorch's; `corrects`: divides by
/// 1 - beta ^ step.
struct PlainAdam {
  bool fused = true;
  bool corrects = true;

  std::vector<std::string> train(const golden::Case& one) const {
    const std::vector<std::string> inputs = golden::words_of(one.values);
    const AdamOptions options = adam_options(one);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < kElements; ++i) {
      double p = std::bit_cast<double>(parse_hex64(inputs.at(i)).value());
      double m = 0.0;
      double v = 0.0;
      for (int step = 1; step <= kSteps; ++step) {
        const auto at = static_cast<std::size_t>(step) * kElements + i;
        const double g = parse_double(inputs.at(at)).value() / per_unit(one);
        m = std::fma(1 - options.beta1, g, m * options.beta1);
        const double gg = (1 - options.beta2) * g;
        v = fused ? std::fma(gg, g, v * options.beta2) : gg * g + v * options.beta2;
        const double bc1 = corrects ? 1 - std::pow(options.beta1, step) : 1.0;
        const double bc2 = corrects ? 1 - std::pow(options.beta2, step) : 1.0;
        const double denominator = std::sqrt(v) / std::sqrt(bc2) + options.eps;
        p = p + -(options.lr / bc1) * m / denominator;
      }
      words.push_back(hex64(std::bit_cast<std::uint64_t>(p)));
    }
    return words;
  }
};

/// The parameter after the last step among a result's words.
std::vector<std::string> last_parameter(const golden::Case& one) {
  const std::vector<std::string> words = golden::words_of(wanted_of(one));
  return {words.begin() + 3 * kElements, words.begin() + 4 * kElements};
}

TEST(OptimizerGoldenTest, AWrongRoundingOrBiasCorrectionOfAdamIsNoticed) {
  int n_cases = 0;
  for (const golden::Case& one : golden::read("optim.txt")) {
    if (one.text() != "adam f64 lr=0.1 rough=1") continue;
    ++n_cases;

    EXPECT_EQ(PlainAdam{}.train(one), last_parameter(one)) << one.text();
    EXPECT_NE(PlainAdam{.fused = false}.train(one), last_parameter(one)) << one.text();
    EXPECT_NE(PlainAdam{.corrects = false}.train(one), last_parameter(one)) << one.text();
  }
  EXPECT_EQ(n_cases, 1);
}

}  // namespace
}  // namespace lockstep::optim
