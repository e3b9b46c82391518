#include "lockstep/nn/module.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/models/two_head.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::ElementsAre;

std::vector<std::string> variable_names(const std::vector<NamedVariable>& variables) {
  std::vector<std::string> names;
  for (const NamedVariable& entry : variables) names.push_back(entry.name);
  return names;
}

// A model with a nested part, a shared layer and a tied weight.
class Tied final : public Module {
 public:
  explicit Tied(Runtime& runtime)
      : Module(runtime), inner_(runtime), encoder_(runtime, 2, 2, {.bias = false}) {
    inner_.append<BatchNorm1d>(2);
    inner_.append<Linear>(2, 2);
    register_module("inner", inner_);
    register_module("encoder", encoder_);
    register_module("again", encoder_);
    register_parameter("decoder", encoder_.weight());
    own_ = register_parameter("own", Tensor::zeros(runtime, {1}, DType::kF32));
  }

  Variable forward(const Variable& x) override { return encoder_(inner_(x)); }

 private:
  Sequential inner_;
  Linear encoder_;
  Variable own_;
};

// Checked by hand against torch.nn.Module: own parameters first, then depth first; the tied weight
// and the shared layer appear once, under the first name.
TEST(ModuleTest, NamesFollowTheOrderOfRegistrationAndSharedOnesComeOnce) {
  PlainRuntime rt;
  const Tied model(rt);

  EXPECT_THAT(
      variable_names(model.named_parameters()),
      ElementsAre(
          "decoder", "own", "inner.0.weight", "inner.0.bias", "inner.1.weight", "inner.1.bias"));
  EXPECT_THAT(
      variable_names(model.named_buffers()),
      ElementsAre("inner.0.running_mean", "inner.0.running_var", "inner.0.num_batches_tracked"));
  EXPECT_EQ(model.parameters().size(), 6U);
}

TEST(ModuleTest, TrainAndEvalReachEverySubmodule) {
  PlainRuntime rt;
  Sequential outer(rt);
  Sequential& inner = outer.append<Sequential>();
  const BatchNorm1d& norm = inner.append<BatchNorm1d>(2);

  EXPECT_TRUE(norm.is_training());
  outer.eval();
  EXPECT_FALSE(norm.is_training());
  outer.train();
  EXPECT_TRUE(norm.is_training());
}

TEST(ModuleTest, ZeroGradForgetsOrClearsInPlace) {
  PlainRuntime rt;
  const Linear layer(rt, 1, 1, {.bias = true});
  const Tensor grad = Tensor::full(rt, {1, 1}, DType::kF32, 3.0);
  layer.weight().set_grad(grad);

  layer.zero_grad(false);
  EXPECT_EQ(grad.item(), 0.0);
  EXPECT_TRUE(layer.weight().grad().shares_memory_with(grad));
  EXPECT_FALSE(layer.bias().grad().defined());

  layer.zero_grad();
  EXPECT_FALSE(layer.weight().grad().defined());
}

TEST(ModuleTest, AnMlpComputesWhatItsFormulaSays) {
  PlainRuntime rt;
  Sequential mlp(rt);
  const Linear& first = mlp.append<Linear>(1, 2);
  mlp.append<ReLU>();
  const Linear& second = mlp.append<Linear>(2, 1);
  rt.kernels().copy(first.weight().data(), rt.tensor({2, 1}, {1, -1}));
  rt.kernels().copy(second.weight().data(), rt.tensor({1, 2}, {2, 3}));
  rt.kernels().copy(second.bias().data(), rt.tensor({1}, {0.5}));

  // 2 max(x, 0) + 3 max(-x, 0) + 1/2
  const Variable y = mlp(Variable(rt.tensor({2, 1}, {4, -5}, DType::kF32)));

  EXPECT_THAT(values_of(y.data()), ElementsAre(8.5, 15.5));
}

TEST(ModuleTest, TwoHeadLeavesTheOtherHeadWithoutGradient) {
  PlainRuntime rt;
  TwoHead model(rt, {.in = 2, .hidden = 3, .out = 1});
  const auto graded = [&model](Heads heads) {
    model.use(heads);
    model.zero_grad();
    sum(model(Variable(Tensor::full(model.runtime(), {1, 2}, DType::kF32, 1.0)))).backward();
    std::vector<std::string> names;
    for (const NamedVariable& entry : model.named_parameters()) {
      if (entry.variable.grad().defined() && entry.name.ends_with("bias")) {
        names.push_back(entry.name);
      }
    }
    return names;
  };

  EXPECT_THAT(graded(Heads::kA), ElementsAre("trunk.bias", "head_a.bias"));
  EXPECT_THAT(graded(Heads::kB), ElementsAre("trunk.bias", "head_b.bias"));
  EXPECT_THAT(graded(Heads::kBoth), ElementsAre("trunk.bias", "head_a.bias", "head_b.bias"));
}

TEST(ModuleTest, BatchNormCountsTrainingBatchesAndKeepsItsBuffersInPlace) {
  PlainRuntime rt;
  BatchNorm1d norm(rt, 1, {.momentum = 0.5});
  const std::vector<NamedVariable> buffers = norm.named_buffers();
  const Tensor mean = buffers[0].variable.data();
  const Variable x(rt.tensor({2, 1}, {1, 3}, DType::kF32));

  norm(x);
  norm(x);
  norm.eval();
  norm(x);

  EXPECT_EQ(buffers[2].variable.data().dtype(), DType::kI64);
  EXPECT_EQ(buffers[2].variable.item(), 2.0);
  EXPECT_EQ(mean.item(), 1.5);
  EXPECT_FALSE(buffers[0].variable.requires_grad());
}

TEST(ModuleTest, DescriptionsNameTheOptionsOfModulesThatHaveSome) {
  PlainRuntime rt;
  Generator masks(1);
  Sequential model(rt);
  model.append<Linear>(2, 2);
  model.append<ReLU>();
  model.append<Dropout>(0.25, masks);
  model.append<BatchNorm1d>(2, BatchNormOptions{.momentum = std::nullopt});
  EXPECT_EQ(model.descriptions(),
            "1: ReLU(); 2: Dropout(p=0.25); 3: BatchNorm1d(eps=1e-05, momentum=none)");
  EXPECT_EQ(Linear(rt, 2, 2).descriptions(), "");
  EXPECT_EQ(Tanh(rt).descriptions(), "Tanh()");
}

TEST(ModuleTest, OptionsThatChangeWhatALayerComputesAreInItsDescription) {
  PlainRuntime rt;
  const auto differ = [](const Module& one, const Module& other) {
    return !one.descriptions().empty() && one.descriptions() != other.descriptions();
  };
  EXPECT_TRUE(differ(LayerNorm(rt, 2), LayerNorm(rt, 2, {.eps = 0.5})));
  EXPECT_TRUE(differ(BatchNorm1d(rt, 2), BatchNorm1d(rt, 2, {.eps = 0.5})));
  EXPECT_TRUE(differ(BatchNorm1d(rt, 2), BatchNorm2d(rt, 2)));
  EXPECT_TRUE(differ(Conv2d(rt, 1, 1), Conv2d(rt, 1, 1, {.stride = 2})));
  EXPECT_TRUE(differ(Conv2d(rt, 1, 1), Conv2d(rt, 1, 1, {.padding = 1})));
  EXPECT_TRUE(differ(Embedding(rt, 2, 2), Embedding(rt, 2, 2, {.padding = 0})));
  EXPECT_TRUE(differ(MaxPool2d(rt, tile(2)), MaxPool2d(rt, tile(3))));
  EXPECT_TRUE(differ(MaxPool2d(rt, tile(2)), AvgPool2d(rt, tile(2))));
  EXPECT_TRUE(differ(AvgPool2d(rt, {.height = 2, .width = 2, .stride = 2, .padding = 0}),
                     AvgPool2d(rt, {.height = 2, .width = 2, .stride = 2, .padding = 1})));
  EXPECT_TRUE(differ(ReLU(rt), Tanh(rt)));
  EXPECT_TRUE(differ(Sigmoid(rt), Tanh(rt)));
}

}  // namespace
}  // namespace lockstep::nn
