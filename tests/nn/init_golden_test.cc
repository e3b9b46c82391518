// Initial values bit for bit against a real PyTorch (tests/golden/layers_init.txt).
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"

#include "tests/golden/golden_file.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;

void append_words(std::vector<std::int64_t>& words, const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    if (tensor.dtype() == DType::kF32) {
      words.push_back(std::bit_cast<std::int32_t>(tensor.data<float>()[i]));
    } else {
      words.push_back(std::bit_cast<std::int64_t>(tensor.data<double>()[i]));
    }
  }
}

std::string listed(const Tensor& tensor) {
  std::vector<std::int64_t> words;
  append_words(words, tensor);
  return golden::listed(words);
}

std::string listed(const Module& module) {
  std::vector<std::int64_t> words;
  for (const Variable& parameter : module.parameters()) append_words(words, parameter.data());
  return golden::listed(words);
}

void fill(const std::string& name, const Tensor& t, Generator& g) {
  if (name == "normal") return init::normal(t, g, 0.5, 0.02);
  if (name == "kaiming_uniform") return init::kaiming_uniform(t, g);
  if (name == "kaiming_uniform_out") {
    return init::kaiming_uniform(
        t, g, {.gain = init::leaky_relu_gain(0.2), .mode = init::FanMode::kOut});
  }
  if (name == "kaiming_normal") {
    return init::kaiming_normal(t, g, {.gain = init::leaky_relu_gain(std::sqrt(5.0))});
  }
  if (name == "kaiming_normal_out") {
    return init::kaiming_normal(t, g, {.mode = init::FanMode::kOut});
  }
  if (name == "xavier_uniform") return init::xavier_uniform(t, g, 5.0 / 3.0);
  if (name == "xavier_normal") return init::xavier_normal(t, g);
  if (name == "trunc_normal") return init::trunc_normal(t, g, {.std = 0.02});
  if (name == "trunc_normal_narrow") {
    return init::trunc_normal(t, g, {.mean = 0.5, .std = 1.5, .from = -1.0, .to = 0.75});
  }
  FAIL() << "unknown scheme in the golden file: " << name;
}

Shape shape_of(const std::string& text) {
  return text == "3x4" ? Shape({3, 4}) : Shape({9, 2, 3, 3});
}

TEST(InitGoldenTest, EverySchemeEqualsTorch) {
  PlainRuntime rt;
  int n_cases = 0;
  for (const golden::Case& one : golden::read("layers_init.txt")) {
    if (one.kind != "scheme") continue;
    Generator generator(42);
    const DType dtype = one.arguments[1] == "f32" ? DType::kF32 : DType::kF64;
    const Tensor tensor = Tensor::zeros(rt, shape_of(one.arguments[2]), dtype);
    fill(one.arguments[0], tensor, generator);
    EXPECT_EQ(listed(tensor), one.values) << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 36);
}

std::string initial_images(Runtime& runtime, const std::string& name, Generator& generator) {
  if (name == "conv_1_2_3") return listed(Conv2d(runtime, 1, 2, generator));
  if (name == "conv_3_8_5x2") {
    const Conv2dOptions options{.kernel = 5, .kernel_width = 2, .stride = 2, .padding = 1};
    return listed(Conv2d(runtime, 3, 8, generator, options));
  }
  if (name == "conv_4_6_3_no_bias") {
    return listed(Conv2d(runtime, 4, 6, generator, {.bias = false}));
  }
  if (name == "batch_norm_2d_5") return listed(BatchNorm2d(runtime, 5));
  if (name == "small_cnn") {
    Sequential cnn(runtime);
    cnn.append<Conv2d>(1, 3, Conv2dOptions{.padding = 1});
    cnn.append<BatchNorm2d>(3);
    cnn.append<ReLU>();
    cnn.append<MaxPool2d>(tile(2));
    cnn.append<Conv2d>(3, 4);
    cnn.append<ReLU>();
    cnn.append<Flatten>();
    cnn.append<Linear>(16, 5);
    cnn.reset_parameters(generator);
    return listed(cnn);
  }
  return "";
}

/// The default draws first, as constructing the layer makes them, then a weight of another scheme.
std::string other_weights(Runtime& runtime, const std::string& name, Generator& generator) {
  if (name == "conv_2_3_3_kaiming_normal") {
    const Conv2d layer(runtime, 2, 3, generator);
    init::kaiming_normal(layer.weight().data(), generator);
    return listed(layer);
  }
  const Linear layer(runtime, 9, 7, generator);
  if (name == "linear_9_7_xavier_uniform") init::xavier_uniform(layer.weight().data(), generator);
  if (name == "linear_9_7_trunc_normal") {
    init::trunc_normal(layer.weight().data(), generator, {.std = 0.02});
  }
  return listed(layer);
}

std::string initial_values(Runtime& runtime, const std::string& name, Generator& generator) {
  if (name == "linear_5_3") return listed(Linear(runtime, 5, 3, generator));
  if (name == "linear_20_30") return listed(Linear(runtime, 20, 30, generator));
  if (name == "linear_7_9_no_bias") {
    return listed(Linear(runtime, 7, 9, generator, {.bias = false}));
  }
  if (name == "linear_64_1") return listed(Linear(runtime, 64, 1, generator));
  if (name == "embedding_3_4") return listed(Embedding(runtime, 3, 4, generator));
  if (name == "embedding_11_6") return listed(Embedding(runtime, 11, 6, generator));
  if (name == "embedding_11_6_padding_2") {
    return listed(Embedding(runtime, 11, 6, generator, {.padding = 2}));
  }
  if (name == "layer_norm_8") return listed(LayerNorm(runtime, 8));
  if (name == "batch_norm_5") return listed(BatchNorm1d(runtime, 5));
  if (name == "mlp_6_4_2") {
    Sequential mlp(runtime);
    mlp.append<Linear>(6, 4);
    mlp.append<ReLU>();
    mlp.append<Linear>(4, 2);
    mlp.reset_parameters(generator);
    return listed(mlp);
  }
  const std::string images = initial_images(runtime, name, generator);
  return images.empty() ? other_weights(runtime, name, generator) : images;
}

TEST(InitGoldenTest, EveryLayerEqualsTorchFromTenSeeds) {
  PlainRuntime rt;
  int n_cases = 0;
  for (const golden::Case& one : golden::read("layers_init.txt")) {
    if (one.kind != "layer") continue;
    Generator generator(static_cast<std::uint64_t>(one.integer(1)));
    const std::string ours = initial_values(rt, one.arguments[0], generator);
    EXPECT_EQ(ours, one.values) << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 180);
}

TEST(InitGoldenTest, TheFanOfAFilterBankCountsItsWindow) {
  const init::Fan fan = init::fan_of({9, 2, 3, 3});

  EXPECT_EQ(fan.in, 18);
  EXPECT_EQ(fan.out, 81);
}

TEST(InitGoldenTest, TheOtherFanIsNoticed) {
  PlainRuntime rt;
  Generator first(42);
  Generator second(42);
  const Tensor in = Tensor::zeros(rt, {3, 4}, DType::kF32);
  const Tensor out = Tensor::zeros(rt, {3, 4}, DType::kF32);

  init::kaiming_uniform(in, first, {.mode = init::FanMode::kIn});
  init::kaiming_uniform(out, second, {.mode = init::FanMode::kOut});

  EXPECT_NE(listed(in), listed(out));
}

TEST(InitGoldenTest, ATruncatedNormalStaysInside) {
  PlainRuntime rt;
  Generator generator(1);
  const Tensor tensor = Tensor::zeros(rt, {1000}, DType::kF32);

  init::trunc_normal(tensor, generator, {.from = -0.5, .to = 0.25});

  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(tensor.at(i), -0.5);
    EXPECT_LE(tensor.at(i), 0.25);
  }
}

}  // namespace
}  // namespace lockstep::nn
