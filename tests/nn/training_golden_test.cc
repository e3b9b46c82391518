// Initial weights, exact passes and the order of ready gradients, against a real PyTorch.
#include <gtest/gtest.h>

#include "lockstep/models/two_head.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"

#include "tests/golden/golden_bits.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::Arithmetic;
using lockstep::testing::PlainRuntime;

std::vector<golden::Case> cases_of(const std::string& kind) {
  std::vector<golden::Case> cases;
  for (golden::Case& one : golden::read("training.txt")) {
    if (one.kind == kind) cases.push_back(std::move(one));
  }
  return cases;
}

DType dtype_of(const golden::Case& one) { return parse_enum<DType>(one.arguments.at(0)).value(); }

std::vector<std::int64_t> widths_from(const golden::Case& one, std::size_t first) {
  std::vector<std::int64_t> widths;
  for (std::size_t i = first; i < one.arguments.size(); ++i) widths.push_back(one.integer(i));
  return widths;
}

void build_mlp(Sequential& model, const std::vector<std::int64_t>& widths, DType dtype) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) model.append<ReLU>();
    model.append<Linear>(widths[i], widths[i + 1], LinearOptions{.dtype = dtype});
  }
}

std::string parameter_bits(const Module& module) {
  std::vector<std::string> words;
  for (const Variable& parameter : module.parameters()) golden::append(words, parameter.data());
  return join(words, " ");
}

TEST(TrainingGoldenTest, LinearStartsWithTheWeightsOfPyTorch) {
  const auto cases = cases_of("linear");
  ASSERT_EQ(cases.size(), 20U);

  for (const golden::Case& one : cases) {
    PlainRuntime rt;
    Generator generator(static_cast<std::uint64_t>(one.integer(1)));
    const Linear layer(rt,
                       one.integer(2),
                       one.integer(3),
                       generator,
                       {.bias = one.flag(4), .dtype = dtype_of(one)});

    EXPECT_EQ(parameter_bits(layer), one.values) << one.text();
  }
}

TEST(TrainingGoldenTest, ModelsDrawTheirWeightsInOrderOfRegistration) {
  const auto cases = cases_of("mlp");
  ASSERT_EQ(cases.size(), 2U);

  for (const golden::Case& one : cases) {
    PlainRuntime rt;
    Sequential model(rt);
    build_mlp(model, widths_from(one, 2), dtype_of(one));
    Generator generator(static_cast<std::uint64_t>(one.integer(1)));
    model.reset_parameters(generator);

    EXPECT_EQ(parameter_bits(model), one.values) << one.text();
  }
}

TEST(TrainingGoldenTest, AnotherSeedStartsWithOtherWeights) {
  const golden::Case one = cases_of("mlp").at(0);
  PlainRuntime rt;
  Sequential model(rt);
  build_mlp(model, widths_from(one, 2), dtype_of(one));
  Generator generator(static_cast<std::uint64_t>(one.integer(1)) + 1);
  model.reset_parameters(generator);

  EXPECT_NE(parameter_bits(model), one.values);
}

Variable loss_of(const golden::Case& one, const Variable& y, const Tensor& target) {
  const Reduction reduction = one.arguments.at(2) == "mean" ? Reduction::kMean : Reduction::kSum;
  return one.arguments.at(1) == "mse" ? MSELoss(reduction)(y, target)
                                      : L1Loss(reduction)(y, target);
}

// Output, loss and all gradients of one pass over the given inputs. The sign of zero depends on how
// a product is organised and is left out by adding +0.
std::string exact_pass(const golden::Case& one, const std::string& inputs) {
  PlainRuntime rt(Arithmetic::kExact);
  const DType dtype = dtype_of(one);
  const std::vector<std::int64_t> widths = widths_from(one, 4);
  Sequential model(rt);
  build_mlp(model, widths, dtype);
  golden::WordReader reader(inputs);
  const Variable x(reader.take(rt, {one.integer(3), widths.front()}, dtype), true);
  const Tensor target = reader.take(rt, {one.integer(3), widths.back()}, dtype);
  for (const Variable& parameter : model.parameters()) {
    rt.kernels().copy(parameter.data(), reader.take(rt, parameter.shape(), dtype));
  }

  const Variable y = model(x);
  const Variable loss = loss_of(one, y, target);
  loss.backward();

  std::vector<Tensor> results{y.data(), loss.data()};
  for (const Variable& parameter : model.parameters()) results.push_back(parameter.grad());
  results.push_back(x.grad());
  std::vector<std::string> words;
  for (const Tensor& result : results) {
    const Tensor zero = Tensor::zeros(rt, result.shape(), dtype);
    rt.kernels().add(zero, result, zero);
    golden::append(words, zero);
  }
  return join(words, " ");
}

std::string without_negative_zeros(const std::string& text) {
  std::vector<std::string> words = golden::words_of(text);
  for (std::string& word : words) {
    if (word.find_first_not_of('0', 1) == std::string::npos && word[0] == '8') word[0] = '0';
  }
  return join(words, " ");
}

TEST(TrainingGoldenTest, ExactPassesHaveTheBitsOfPyTorch) {
  const auto cases = cases_of("exact");
  ASSERT_EQ(cases.size(), 32U);

  for (const golden::Case& one : cases) {
    const std::size_t bar = one.values.find(" | ");
    const std::string expected = without_negative_zeros(one.values.substr(bar + 3));

    EXPECT_EQ(exact_pass(one, one.values.substr(0, bar)), expected) << one.text();
  }
}

class ReadyOrder : public GradHook {
 public:
  explicit ReadyOrder(const Module& module) : parameters_(module.named_parameters()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].variable.add_hook(*this, i);
    }
  }

  void on_grad_ready(std::size_t index) override { names.push_back(parameters_[index].name); }

  std::vector<std::string> names;

 private:
  std::vector<NamedVariable> parameters_;
};

std::string ready_order(Module& module, const Variable& x) {
  ReadyOrder order(module);
  sum(module(x)).backward();
  return join(order.names, " ");
}

TEST(TrainingGoldenTest, GradientsBecomeReadyInTheOrderOfPyTorch) {
  PlainRuntime rt;
  const Variable x(Tensor::full(rt, {2, 3}, DType::kF32, 1.0));
  const Variable x_grad(Tensor::full(rt, {2, 3}, DType::kF32, 1.0), true);
  Sequential deep(rt);
  build_mlp(deep, {3, 4, 4, 2}, DType::kF32);
  Sequential shallow(rt);
  build_mlp(shallow, {3, 4, 2}, DType::kF32);
  TwoHead heads(rt, {.in = 3, .hidden = 4, .out = 2});
  heads.use(Heads::kBoth);
  const auto cases = cases_of("order");

  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(ready_order(deep, x), cases[0].values);
  EXPECT_EQ(ready_order(shallow, x_grad), cases[1].values);
  EXPECT_EQ(ready_order(heads, x), cases[2].values);
}

}  // namespace
}  // namespace lockstep::nn
