// The comparison itself, and twins of kernels that it must notice.
#include "tests/gpu/cuda/beside_cpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>

#include "lockstep/gpu/cuda/detail/cuda_kernels.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::testing {

Tensor Bench::out(const Shape& shape, DType dtype) {
  return Tensor::full(*runtime_, shape, dtype, 77.0);
}

double Bench::next(DType dtype) {
  state_ = mix64(state_ + kGolden64);
  if (!is_floating(dtype)) return static_cast<double>(state_ % 5U);
  constexpr double kTiny = std::numeric_limits<float>::denorm_min();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 12> kSpecials = {
      0.0, -0.0, kTiny, -3 * kTiny, kInfinity, -kInfinity, kNan, 1.0, -1.0, 0.5, 3e38, 2.5};
  if (feed_ == Feed::kSpecial && state_ % 2U == 0) return kSpecials[state_ / 2U % kSpecials.size()];
  // Thirds of up to 2^20, down to 2^-10: neither sums nor products fit.
  const double whole = static_cast<double>(state_ >> 44U) / 3.0;
  return (state_ % 4U < 2 ? -whole : whole) * std::ldexp(1.0, static_cast<int>(state_ % 11U) - 20);
}

Tensor Bench::in(const Shape& shape) { return in(shape, dtype_); }

Tensor Bench::in(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.n_elems()));
  for (double& value : values) value = next(dtype);
  return Tensor::of(*runtime_, shape, dtype, values);
}

Tensor Bench::between(const Shape& shape, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(shape.n_elems()));
  for (double& value : values) {
    state_ = mix64(state_ + kGolden64);
    value = low + (high - low) * (static_cast<double>(state_ >> 11U) * 0x1p-53);
  }
  return Tensor::of(*runtime_, shape, dtype_, values);
}

Tensor Bench::indices(std::int64_t n, std::int64_t limit) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) {
    state_ = mix64(state_ + kGolden64);
    value = static_cast<double>(state_ % static_cast<std::uint64_t>(limit));
  }
  return Tensor::of(*runtime_, {n}, DType::kI64, values);
}

Tensor Bench::number(double value) {
  return Tensor::of(*runtime_, {}, DType::kF64, std::array{value});
}

Tensor Bench::bits(std::uint64_t value) {
  const Tensor tensor = Tensor::zeros(*runtime_, {}, DType::kI64);
  *tensor.data<std::int64_t>() = std::bit_cast<std::int64_t>(value);
  return tensor;
}

namespace {

/// How many bits of a number follow the binary point.
int digits_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 52;
    case DType::kF32:
      return 23;
    case DType::kF16:
      return 10;
    default:
      return 7;
  }
}

bool close(double got, double wanted, const Case& tried, DType dtype) {
  if (std::isnan(got) || std::isnan(wanted)) return std::isnan(got) && std::isnan(wanted);
  if (got == wanted) return true;
  const double larger = std::max({std::abs(wanted), std::abs(got), tried.scale});
  if (std::isinf(larger)) return false;
  return std::abs(got - wanted) <= tried.ulps * std::ldexp(larger, -digits_of(dtype));
}

bool same_element(const Tensor& got, const Tensor& wanted, std::int64_t i, const Case* tolerant) {
  const auto size = static_cast<std::size_t>(size_of(got.dtype()));
  const auto* const a =
      static_cast<const std::byte*>(got.raw()) + static_cast<std::size_t>(i) * size;
  const auto* const b =
      static_cast<const std::byte*>(wanted.raw()) + static_cast<std::size_t>(i) * size;
  if (std::memcmp(a, b, size) == 0) return true;
  if (!is_floating(got.dtype())) return false;
  if (std::isnan(got.at(i)) && std::isnan(wanted.at(i))) return true;
  return tolerant != nullptr && close(got.at(i), wanted.at(i), *tolerant, got.dtype());
}

std::string compare(const Tensor& got, const Tensor& wanted, const Case* tolerant) {
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape()) return "other shapes";
  for (std::int64_t i = 0; i < got.n_elems(); ++i) {
    if (same_element(got, wanted, i, tolerant)) continue;
    std::array<char, 160> text{};
    std::snprintf(text.data(),
                  text.size(),
                  "element %lld of %lld is %a, on the processor %a",
                  static_cast<long long>(i),
                  static_cast<long long>(got.n_elems()),
                  got.at(i),
                  wanted.at(i));
    return text.data();
  }
  return "";
}

std::string difference_in(const Case& tried, Machine& machine, Bench bench, bool exactly) {
  Machine cpu;
  Bench reference(cpu.runtime(), bench.dtype(), bench.feed());
  const std::vector<Tensor> wanted = tried.run(reference);
  const std::vector<Tensor> got = tried.run(bench);
  machine.runtime().settle();
  if (got.size() != wanted.size()) return "other results";
  for (std::size_t k = 0; k < got.size(); ++k) {
    const Case* const tolerant = exactly || tried.ulps == 0.0 ? nullptr : &tried;
    const std::string text = compare(got[k], wanted[k], tolerant);
    if (text.empty()) continue;
    return tried.name + " in " + std::string(lockstep::name_of(bench.dtype())) +
           (bench.feed() == Feed::kSpecial ? ", special numbers" : "") + ", result " +
           std::to_string(k) + ": " + text;
  }
  return "";
}

}  // namespace

std::string difference(const Case& tried, Machine& machine, bool exactly) {
  for (const DType dtype : tried.dtypes) {
    for (const Feed feed : {Feed::kRounding, Feed::kSpecial}) {
      if (feed == Feed::kSpecial && !tried.special) continue;
      std::string text =
          difference_in(tried, machine, Bench(machine.runtime(), dtype, feed), exactly);
      if (!text.empty()) return text;
    }
  }
  return "";
}

void BesideCpu::SetUp() {
  if (GetParam() != cuda::ExecutionTarget::kDevice) return;
  const cuda::DeviceCount devices = cuda::device_count();
  ASSERT_FALSE(devices.broken) << devices.reason;
  if (devices.count == 0) GTEST_SKIP() << "not run on a GPU: " << devices.reason;
  std::cout << "device: " << cuda::device_info(0).name << "\n";
}

void BesideCpu::expect_same(const std::vector<Case>& cases, cuda::Arithmetic arithmetic) {
  Machine machine(accelerator(arithmetic));
  const bool exactly = GetParam() != cuda::ExecutionTarget::kDevice || !arithmetic.functions;
  for (const Case& tried : cases) EXPECT_EQ(difference(tried, machine, exactly), "");
}

std::string name_of_place(const ::testing::TestParamInfo<cuda::ExecutionTarget>& info) {
  switch (info.param) {
    case cuda::ExecutionTarget::kDevice:
      return "TheDevice";
    case cuda::ExecutionTarget::kHost:
      return "TheHost";
    case cuda::ExecutionTarget::kHostLate:
      return "TheHostLater";
  }
  return "Nowhere";
}

namespace {

using cuda::ExecutionTarget;

/// Kernels with mistakes of the kind that the comparison is for.
class Twisted final : public cuda::CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  /// From the last element on: another order.
  void sum_all(const Tensor& out, const Tensor& in) override {
    float sum = 0;
    for (std::int64_t i = in.n_elems(); i-- > 0;) sum += in.data<float>()[i];
    *out.data<float>() = sum;
  }

  /// Two roundings instead of one.
  void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) override {
    scale(out, b, alpha);
    add(out, a, out);
  }

  /// -0 becomes +0.
  void relu(const Tensor& out, const Tensor& in) override {
    CudaKernels::relu(out, in);
    for (float& value : out.span<float>()) value += 0.0F;
  }

  /// One rounding instead of two.
  void sgd(const Tensor& param,
           const Tensor& grad,
           const Tensor& /*buffer*/,
           const SgdUpdate& update) override {
    for (std::int64_t i = 0; i < param.n_elems(); ++i) {
      float& value = param.data<float>()[i];
      value = value - static_cast<float>(update.lr) * grad.data<float>()[i];
    }
  }
};

std::vector<Case> twisted_cases() {
  const auto one = [](std::string name, std::function<std::vector<Tensor>(Bench&)> run) {
    return Case{.name = std::move(name), .run = std::move(run), .dtypes = {DType::kF32}};
  };
  return {one("sum_all",
              [](Bench& b) {
                const Tensor out = b.out({});
                b.kernels().sum_all(out, b.in({100}));
                return std::vector{out};
              }),
          one("add_scaled",
              [](Bench& b) {
                const Tensor out = b.out({100});
                b.kernels().add_scaled(out, b.in({100}), b.in({100}), 0.1);
                return std::vector{out};
              }),
          one("relu",
              [](Bench& b) {
                const Tensor out = b.out({100});
                b.kernels().relu(out, b.in({100}));
                return std::vector{out};
              }),
          one("sgd", [](Bench& b) {
            const Tensor param = b.in({100});
            b.kernels().sgd(param, b.in({100}), Tensor(), {.lr = 0.1});
            return std::vector{param};
          })};
}

TEST(ComparisonTest, KernelsWithAMistakeAreNoticed) {
  cuda::Executor executor(ExecutionTarget::kHost);
  Kernels twisted(std::make_unique<Twisted>(executor, nullptr, nullptr, true));
  Machine machine(cuda::make_accelerator(ExecutionTarget::kHost, cuda::Arithmetic{.cublas = false}),
                  twisted);
  for (const Case& tried : twisted_cases()) {
    EXPECT_NE(difference(tried, machine, true), "") << tried.name;
  }
}

TEST(ComparisonTest, TheSameCasesAreEqualWithoutTheMistakes) {
  Machine machine(
      cuda::make_accelerator(ExecutionTarget::kHost, cuda::Arithmetic{.cublas = false}));
  for (const Case& tried : twisted_cases()) EXPECT_EQ(difference(tried, machine, true), "");
}

TEST(ComparisonTest, ABoundHoldsToItsLastUnit) {
  const auto answer = [](float value) {
    return [value](Bench& b) {
      const bool device = b.runtime().accelerator() != nullptr;
      return std::vector{Tensor::full(b.runtime(), {}, DType::kF32, device ? value : 1.0F)};
    };
  };
  Machine machine(
      cuda::make_accelerator(ExecutionTarget::kHost, cuda::Arithmetic{.cublas = false}));
  Case tried{
      .name = "one", .run = answer(1.0F + 3 * 0x1p-23F), .ulps = 3.0, .dtypes = {DType::kF32}};
  EXPECT_EQ(difference(tried, machine, false), "");
  EXPECT_NE(difference(tried, machine, true), "");
  tried.run = answer(1.0F + 4 * 0x1p-23F);
  EXPECT_NE(difference(tried, machine, false), "");
}

}  // namespace
}  // namespace lockstep::testing
