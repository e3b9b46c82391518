// Kernels that give one element for one element, against the processor's: bit for bit.
#include <array>

#include "tests/gpu/cuda/beside_cpu.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

// Around the warp and the block.
constexpr std::array<std::int64_t, 6> kSizes = {0, 1, 31, 33, 255, 257};

const std::vector<DType> kWide = {DType::kF32, DType::kF64};
const std::vector<DType> kAll = {DType::kF32,
                                 DType::kF64,
                                 DType::kF16,
                                 DType::kBF16,
                                 DType::kI8,
                                 DType::kU8,
                                 DType::kI32,
                                 DType::kI64,
                                 DType::kBool};

using Unary = std::function<void(Kernels&, const Tensor& out, const Tensor& in)>;
using Binary = std::function<void(Kernels&, const Tensor& out, const Tensor& a, const Tensor& b)>;

/// In all sizes, and in place.
void add_unary(std::vector<Case>& cases, const Case& like, const Unary& run) {
  for (const std::int64_t n : kSizes) {
    for (const bool in_place : {false, true}) {
      Case one = like;
      one.name += " of " + std::to_string(n) + (in_place ? " in place" : "");
      one.run = [run, n, in_place](Bench& b) {
        const Tensor in = b.in({n});
        const Tensor out = in_place ? in : b.out({n});
        run(b.kernels(), out, in);
        return Tensors{out};
      };
      cases.push_back(std::move(one));
    }
  }
}

void add_binary(std::vector<Case>& cases, const Case& like, const Binary& run) {
  for (const std::int64_t n : kSizes) {
    for (const std::size_t alias : {0U, 1U, 2U, 3U}) {
      Case one = like;
      one.name += " of " + std::to_string(n) + ", aliased " + std::to_string(alias);
      one.run = [run, n, alias](Bench& b) {
        const Tensor x = b.in({n});
        const Tensor y = alias == 3 ? x : b.in({n});
        const Tensor out = alias == 0 ? b.out({n}) : alias == 1 ? x : y;
        run(b.kernels(), out, x, y);
        return Tensors{out};
      };
      cases.push_back(std::move(one));
    }
  }
}

class ElementwiseTest : public BesideCpu {};

TEST_P(ElementwiseTest, ArithmeticHasTheCpusBits) {
  std::vector<Case> cases;
  add_binary(cases, {.name = "add", .run = {}}, [](Kernels& k, auto& out, auto& a, auto& b) {
    k.add(out, a, b);
  });
  add_binary(cases, {.name = "sub", .run = {}}, [](Kernels& k, auto& out, auto& a, auto& b) {
    k.sub(out, a, b);
  });
  add_binary(cases, {.name = "mul", .run = {}}, [](Kernels& k, auto& out, auto& a, auto& b) {
    k.mul(out, a, b);
  });
  add_binary(cases, {.name = "div", .run = {}}, [](Kernels& k, auto& out, auto& a, auto& b) {
    k.div(out, a, b);
  });
  add_binary(cases, {.name = "add_scaled", .run = {}}, [](Kernels& k, auto& out, auto& a, auto& b) {
    k.add_scaled(out, a, b, 0.1);
  });
  add_unary(cases, {.name = "scale", .run = {}}, [](Kernels& k, auto& out, auto& in) {
    k.scale(out, in, 0.1);
  });
  add_unary(cases, {.name = "div_scalar", .run = {}}, [](Kernels& k, auto& out, auto& in) {
    k.div_scalar(out, in, 3.0);
  });
  add_unary(cases, {.name = "average_into_bucket", .run = {}}, [](Kernels& k, auto& out, auto& in) {
    k.average_into_bucket(out, in, 3.0);
  });
  add_unary(
      cases, {.name = "sqrt", .run = {}}, [](Kernels& k, auto& out, auto& in) { k.sqrt(out, in); });
  add_unary(cases, {.name = "clamp", .run = {}}, [](Kernels& k, auto& out, auto& in) {
    k.clamp(out, in, 0.3);
  });
  add_unary(cases,
            {.name = "round_to_grid", .run = {}, .dtypes = kWide},
            [](Kernels& k, auto& out, auto& in) { k.round_to_grid(out, in, 7, 2.5); });
  expect_same(cases);
}

TEST_P(ElementwiseTest, ActivationsWithoutTheLibraryHaveTheCpusBits) {
  std::vector<Case> cases;
  add_unary(
      cases, {.name = "relu", .run = {}}, [](Kernels& k, auto& out, auto& in) { k.relu(out, in); });
  add_binary(cases,
             {.name = "relu_backward", .run = {}},
             [](Kernels& k, auto& out, auto& grad, auto& y) { k.relu_backward(out, grad, y); });
  add_binary(cases,
             {.name = "tanh_backward", .run = {}},
             [](Kernels& k, auto& out, auto& grad, auto& y) { k.tanh_backward(out, grad, y); });
  add_binary(cases,
             {.name = "sigmoid_backward", .run = {}},
             [](Kernels& k, auto& out, auto& grad, auto& y) { k.sigmoid_backward(out, grad, y); });
  expect_same(cases);
}

// The bounds are derived in docs/gpu.md; they are the device's alone.
TEST_P(ElementwiseTest, ActivationsOfTheLibraryAreWithinItsBounds) {
  std::vector<Case> cases;
  add_unary(cases, {.name = "tanh", .run = {}, .ulps = 4.0}, [](Kernels& k, auto& out, auto& in) {
    k.tanh(out, in);
  });
  add_unary(cases, {.name = "exp", .run = {}, .ulps = 3.0}, [](Kernels& k, auto& out, auto& in) {
    k.exp(out, in);
  });
  add_unary(cases, {.name = "log", .run = {}, .ulps = 2.0}, [](Kernels& k, auto& out, auto& in) {
    k.log(out, in);
  });
  add_unary(cases,
            {.name = "sigmoid", .run = {}, .ulps = 8.0},
            [](Kernels& k, auto& out, auto& in) { k.sigmoid(out, in); });
  for (const Kernels::Gelu form : {Kernels::Gelu::kErf, Kernels::Gelu::kTanh}) {
    add_unary(cases,
              {.name = "gelu", .run = {}, .ulps = 16.0, .scale = 1e3, .special = false},
              [form](Kernels& k, auto& out, auto& in) { k.gelu(out, in, form); });
    add_binary(cases,
               {.name = "gelu_backward", .run = {}, .ulps = 32.0, .scale = 1e3, .special = false},
               [form](Kernels& k, auto& out, auto& grad, auto& x) {
                 k.gelu_backward(out, grad, x, form);
               });
  }
  expect_same(cases);
  expect_same(cases, cuda::kStrict);
}

TEST_P(ElementwiseTest, ValuesSpreadOverRowsAndChannelsHaveTheCpusBits) {
  const auto row = [](std::int64_t n_rows, std::int64_t width) {
    return Case{.name = "add_row", .run = [=](Bench& b) {
                  const Tensor out = b.out({n_rows, width});
                  b.kernels().add_row(out, b.in({n_rows, width}), b.in({width}));
                  return Tensors{out};
                }};
  };
  const auto channels = [](const Shape& shape) {
    return Case{.name = "add_channels", .run = [=](Bench& b) {
                  const Tensor out = b.out(shape);
                  b.kernels().add_channels(out, b.in(shape), b.in({shape[1]}));
                  return Tensors{out};
                }};
  };
  expect_same({row(0, 3),
               row(1, 1),
               row(7, 33),
               row(300, 1'001),
               channels({2, 3, 5, 7}),
               channels({4, 5}),
               channels({0, 3, 2, 2}),
               channels({3, 2, 4})});
}

TEST_P(ElementwiseTest, TensorsLargerThanOneGridHaveTheCpusBits) {
  constexpr std::int64_t kMany = 300'007;
  expect_same({{.name = "add_scaled", .run = [](Bench& b) {
                  const Tensor out = b.in({kMany});
                  b.kernels().add_scaled(out, out, b.in({kMany}), 0.1);
                  return Tensors{out};
                }}});
}

TEST_P(ElementwiseTest, FillsOfEveryDtypeHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const double value : {0.0, -0.0, 1.0, 0.1, 3.0}) {
    for (const std::int64_t n : kSizes) {
      cases.push_back({.name = "fill",
                       .run =
                           [=](Bench& b) {
                             const Tensor out = b.out({n});
                             b.kernels().fill(out, value);
                             return Tensors{out};
                           },
                       .dtypes = kAll});
    }
  }
  expect_same(cases);
}

TEST_P(ElementwiseTest, CopiesBetweenAllDtypesHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const DType from : kAll) {
    // A number outside an integer's range has no promised image.
    const bool special = is_floating(from);
    for (const DType to : kAll) {
      if (special && !is_floating(to) && to != DType::kBool) continue;
      cases.push_back({.name = "copy from " + std::string(lockstep::name_of(from)) + " to " +
                               std::string(lockstep::name_of(to)),
                       .run =
                           [=](Bench& b) {
                             const Tensor out = b.out({1'001}, to);
                             b.kernels().copy(out, b.in({1'001}, from));
                             return Tensors{out};
                           },
                       .dtypes = {DType::kF32}});
    }
  }
  for (const DType from : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const DType to : {DType::kI8, DType::kU8, DType::kI32, DType::kI64}) {
      cases.push_back({.name = "copy to an integer",
                       .run =
                           [=](Bench& b) {
                             const Tensor in = b.between({257}, 0.0, 100.0).to(from);
                             const Tensor out = b.out({257}, to);
                             b.kernels().copy(out, in);
                             return Tensors{out};
                           },
                       .dtypes = {DType::kF32}});
    }
  }
  expect_same(cases);
}

TEST_P(ElementwiseTest, SlopesOfLossesHaveTheCpusBits) {
  const auto slope = [](std::int64_t n, bool squared) {
    return Case{.name = squared ? "mse_backward" : "l1_backward", .run = [=](Bench& b) {
                  const Tensor out = b.out({n});
                  const Tensor grad = b.between({}, 0.1, 0.9);
                  const Tensor x = b.in({n});
                  const Tensor y = b.in({n});
                  if (squared) {
                    b.kernels().mse_backward(out, grad, x, y, 7.0);
                  } else {
                    b.kernels().l1_backward(out, grad, x, y, 7.0);
                  }
                  return Tensors{out};
                }};
  };
  for (const std::int64_t n : kSizes) expect_same({slope(n, false), slope(n, true)});
}

TEST_P(ElementwiseTest, MemoryOfOthersIsRefused) {
  Machine machine(accelerator());
  Machine other;
  const Tensor theirs = Tensor::zeros(other.runtime(), {4}, DType::kF32);
  const Tensor ours = Tensor::zeros(machine.runtime(), {4}, DType::kF32);

  EXPECT_THROW(machine.runtime().kernels().add(ours, ours, theirs), ContractViolation);
  EXPECT_THROW(machine.runtime().kernels().relu(theirs, ours), ContractViolation);
}

LOCKSTEP_ON_EVERY_PLACE(ElementwiseTest);

}  // namespace
}  // namespace lockstep::testing
