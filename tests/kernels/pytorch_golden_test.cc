// Bit for bit against a real PyTorch (tests/golden/kernels.txt and sgd.txt).
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "tests/golden/golden_file.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

/// The tensor whose elements have the bit patterns `words`.
Tensor from_bits(Runtime& runtime, DType dtype, const std::string& words) {
  std::vector<std::uint64_t> bits;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) bits.push_back(parse_hex64(word).value());
  const Shape shape{static_cast<std::int64_t>(bits.size())};
  Tensor tensor = Tensor::empty(runtime, shape, dtype);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (dtype == DType::kF32) {
      tensor.data<float>()[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits[i]));
    } else {
      tensor.data<double>()[i] = std::bit_cast<double>(bits[i]);
    }
  }
  return tensor;
}

std::uint64_t digest_of(const Tensor& tensor) {
  return tensor.runtime().kernels().digest(tensor, 0);
}

void apply(
    const std::string& name, const Tensor& out, const Tensor& a, const Tensor& b, double scalar) {
  Kernels& kernels = out.runtime().kernels();
  const Tensor grad_out = Tensor::full(out.runtime(), {}, out.dtype(), scalar);
  const auto n = static_cast<double>(out.n_elems());
  if (name == "add_scaled") return kernels.add_scaled(out, a, b, scalar);
  if (name == "scale") return kernels.scale(out, a, scalar);
  if (name == "div_scalar") return kernels.div_scalar(out, a, scalar);
  if (name == "average") return kernels.average_into_bucket(out, a, scalar);
  if (name == "mul") return kernels.mul(out, a, b);
  if (name == "div") return kernels.div(out, a, b);
  if (name == "relu") return kernels.relu(out, a);
  if (name == "relu_backward") return kernels.relu_backward(out, a, b);
  if (name == "tanh_backward") return kernels.tanh_backward(out, a, b);
  if (name == "mse_backward") return kernels.mse_backward(out, grad_out, a, b, n);
  if (name == "l1_backward") return kernels.l1_backward(out, grad_out, a, b, n);
  FAIL() << "unknown operation in the golden file: " << name;
}

TEST(PytorchGoldenTest, ElementWiseKernelsHaveTheSameBits) {
  const std::vector<golden::Case> cases = golden::read("kernels.txt");
  ASSERT_EQ(cases.size(), 66U);

  for (std::size_t i = 0; i < cases.size(); i += 3) {
    TestRuntime test;
    const DType dtype = parse_enum<DType>(cases[i].arguments[0]).value();
    const double scalar = parse_double(cases[i].arguments[1]).value();
    const Tensor a = from_bits(test.runtime, dtype, cases[i].values);
    const Tensor b = from_bits(test.runtime, dtype, cases[i + 1].values);
    const Tensor expected = from_bits(test.runtime, dtype, cases[i + 2].values);

    const Tensor out = Tensor::empty(test.runtime, a.shape(), dtype);
    apply(cases[i].kind, out, a, b, scalar);

    EXPECT_EQ(digest_of(out), digest_of(expected)) << cases[i].text();
  }
}

TEST(PytorchGoldenTest, TwoRoundingsInsteadOfOneWouldBeNoticed) {
  TestRuntime test;
  const std::vector<golden::Case> cases = golden::read("kernels.txt");
  ASSERT_EQ(cases[0].kind, "add_scaled");
  const Tensor a = from_bits(test.runtime, DType::kF32, cases[0].values);
  const Tensor b = from_bits(test.runtime, DType::kF32, cases[1].values);
  const Tensor expected = from_bits(test.runtime, DType::kF32, cases[2].values);

  const Tensor out = Tensor::empty(test.runtime, a.shape(), DType::kF32);
  test.kernels->scale(out, b, 0.37);
  test.kernels->add(out, a, out);

  EXPECT_NE(digest_of(out), digest_of(expected));
}

SgdUpdate sgd_update(const golden::Case& line) {
  return {.lr = parse_double(line.arguments[1]).value(),
          .momentum = parse_double(line.arguments[2]).value(),
          .dampening = parse_double(line.arguments[3]).value(),
          .weight_decay = parse_double(line.arguments[4]).value(),
          .nesterov = line.flag(5),
          .maximize = line.flag(6)};
}

TEST(PytorchGoldenTest, SgdTrajectoriesHaveTheSameBits) {
  TestRuntime test;
  Tensor param;
  Tensor grad;
  Tensor buffer;
  SgdUpdate update;
  int steps = 0;

  for (const golden::Case& line : golden::read("sgd.txt")) {
    const DType dtype = parse_enum<DType>(line.arguments[0]).value();
    const Tensor values = from_bits(test.runtime, dtype, line.values);
    const std::string& role = line.arguments[7];
    if (role == "param") {
      param = values;
      buffer = Tensor::empty(test.runtime, param.shape(), dtype);
      update = sgd_update(line);
      update.first_step = true;
    } else if (role == "grad") {
      grad = values;
    } else {
      test.kernels->sgd(param, grad, update.momentum == 0.0 ? Tensor() : buffer, update);
      update.first_step = false;
      ++steps;
      EXPECT_EQ(digest_of(param), digest_of(values)) << line.text();
    }
  }

  EXPECT_EQ(steps, 48);
}

TEST(PytorchGoldenTest, TheUndampedFirstMomentumStepMatters) {
  TestRuntime test;
  const Tensor grad = Tensor::full(test.runtime, {3}, DType::kF64, 1.0);
  const Tensor first = Tensor::zeros(test.runtime, {3}, DType::kF64);
  const Tensor damped = Tensor::zeros(test.runtime, {3}, DType::kF64);
  const Tensor buffer = Tensor::zeros(test.runtime, {3}, DType::kF64);
  SgdUpdate update{.lr = 1.0, .momentum = 0.5, .dampening = 0.5, .first_step = true};

  test.kernels->sgd(first, grad, buffer, update);
  update.first_step = false;
  test.kernels->fill(buffer, 0.0);
  test.kernels->sgd(damped, grad, buffer, update);

  EXPECT_EQ(first.at(0), -1.0);
  EXPECT_EQ(damped.at(0), -0.5);
}

}  // namespace
}  // namespace lockstep
