// Mixed precision in the wrapper, against PyTorch 2.15 on gloo
// (tests/golden/make_mixed_precision.py).
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/functional/cast.h"
#include "lockstep/tensor/kernels.h"

#include "tests/ddp/tiny_model.h"
#include "tests/golden/golden_file.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Lines = std::map<std::string, std::string>;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

double number(std::int64_t rank, std::int64_t step, std::int64_t index) {
  return static_cast<double>((rank * 37 + step * 23 + index * 11) % 41 - 20) / 8.0 +
         static_cast<double>(index + 1) / 1024.0;
}

Values numbers(std::int64_t rank, std::int64_t step, std::int64_t first, std::int64_t n) {
  Values values;
  for (std::int64_t i = first; i < first + n; ++i) values.push_back(number(rank, step, i));
  return values;
}

std::string bit_text(const Tensor& tensor) {
  Texts words;
  const Tensor wide = tensor.to(DType::kF32);
  for (const float value : wide.span<float>()) {
    words.push_back(hex64(std::bit_cast<std::uint32_t>(value)).substr(8));
  }
  return join(words, " ");
}

Tensor of(Runtime& runtime, const Values& values) {
  return Tensor::of(runtime, {static_cast<std::int64_t>(values.size())}, DType::kF32, values);
}

// Its arithmetic is f32, on casts of whatever narrow tensors the wrapper lends.
struct NarrowModel : TinyModel {
  explicit NarrowModel(MiniRank& rank) : TinyModel(rank.runtime) {
    a = parameter("net.a", numbers(rank.rank, 90, 0, 5));
    b = parameter("net.b", numbers(rank.rank, 91, 0, 3));
    frozen = parameter("net.frozen", Values{1.0009765625}, DType::kF32, false);
    seen = buffer("net.seen", {number(rank.rank, 92, 0)});
    count = buffer("net.count", {3}, DType::kI64);
  }

  std::vector<NamedVariable> named_parameters() { return parameters; }

  std::vector<NamedVariable> named_buffers() { return buffers; }

  static bool is_training() { return true; }

  Variable forward(const Variable& x, const Variable& y) {
    lent = bit_text(a.data()) + "," + bit_text(frozen.data());
    const auto product =
        static_cast<float>(frozen.data().at(0)) * static_cast<float>(seen.data().at(0));
    const Variable factor(Tensor::full(*runtime, {3}, DType::kF32, product / 16.0F));
    // Made in this order, so that the gradient of b is ready first.
    const Variable a_term = sum(mul(cast(a, DType::kF32), cast(x, DType::kF32)));
    const Variable wide_b = mul(cast(b, DType::kF32), cast(y, DType::kF32));
    return add(a_term, sum(mul(wide_b, factor)));
  }

  void forget() const {
    for (const NamedVariable& one : parameters) one.variable.set_grad(Tensor());
  }

  std::string lent;
  Variable a;
  Variable b;
  Variable frozen;
  Variable seen;
  Variable count;
};

using Wrapped = DistributedDataParallel<NarrowModel>;

Variable step_loss(Wrapped& ddp, MiniRank& rank, std::int64_t step) {
  return ddp(Variable(of(rank.runtime, numbers(rank.rank, step, 0, 5))),
             Variable(of(rank.runtime, numbers(rank.rank, step, 5, 3))));
}

void take_step(const Variable& parameter) {
  const Tensor& data = parameter.data();
  for (std::int64_t i = 0; i < data.n_elems(); ++i) {
    const float change = parameter.grad().span<float>()[static_cast<std::size_t>(i)] * 0.125F;
    data.data<float>()[i] = data.data<float>()[i] - change;
  }
}

std::optional<DType> dtype_or_none(const std::string& text) {
  return text == "-" ? std::nullopt : std::optional<DType>(parse_enum<DType>(text).value());
}

std::string torch_name(DType dtype) {
  return dtype == DType::kF16    ? "torch.float16"
         : dtype == DType::kBF16 ? "torch.bfloat16"
         : dtype == DType::kI64  ? "torch.int64"
                                 : "torch.float32";
}

// The whole job of one case; `lines` receives what the script writes down.
void run_case(MiniRank& rank, const golden::Case& one, Lines& lines) {
  NarrowModel model(rank);
  Wrapped ddp(model,
              rank.group,
              {.mixed_precision = MixedPrecision{.param_dtype = *dtype_or_none(one.arguments[0]),
                                                 .reduce_dtype = dtype_or_none(one.arguments[1]),
                                                 .buffer_dtype = dtype_or_none(one.arguments[2])}});
  const std::string name = join(Texts(one.arguments.begin(), one.arguments.begin() + 5), " ") +
                           " " + std::to_string(rank.rank);
  lines["buffers " + name] = torch_name(model.seen.data().dtype()) + " " +
                             torch_name(model.count.data().dtype()) + " " +
                             bit_text(model.seen.data());
  for (std::int64_t step = 0; step < 5; ++step) {
    if (one.arguments[4] == "none" || step < 2) model.forget();
    const Variable loss = step_loss(ddp, rank, step);
    const std::string at = name + " " + std::to_string(step);
    lines["lent " + at] = model.lent;
    loss.backward();
    if (step == 0) continue;
    EXPECT_EQ(model.a.data().dtype(), DType::kF32);
    EXPECT_EQ(model.a.grad().dtype(), DType::kF32);
    lines["grad " + at] = bit_text(model.a.grad()) + "," + bit_text(model.b.grad());
    take_step(model.a);
    take_step(model.b);
    lines["param " + at] = bit_text(model.a.data()) + "," + bit_text(model.b.data());
  }
}

Lines golden_lines(const std::vector<golden::Case>& cases) {
  Lines lines;
  for (const golden::Case& one : cases) lines[one.text()] = one.values;
  return lines;
}

// `mistake`: ranks that add up in a different order.
Lines own_lines(const std::vector<golden::Case>& cases, bool mistake) {
  Lines lines;
  for (const golden::Case& one : cases) {
    if (one.kind != "buffers" || one.arguments[5] != "0") continue;
    const MiniResult result =
        run_mini_world({.n_ranks = static_cast<std::int32_t>(one.integer(3)),
                        .order = mistake ? ReductionOrder::kRank : ReductionOrder::kGlooRing},
                       [&](MiniRank& rank) { run_case(rank, one, lines); });
    EXPECT_TRUE(result.ok()) << result.error(0);
  }
  return lines;
}

TEST(DdpMixedPrecisionTest, EverythingIsPyTorchsBitForBit) {
  const std::vector<golden::Case> cases = golden::read("mixed_precision_torch2.txt");
  ASSERT_EQ(cases.size(), 700U);
  const Lines expected = golden_lines(cases);
  const Lines own = own_lines(cases, false);
  EXPECT_EQ(own.size(), expected.size());
  for (const auto& [name, values] : own) EXPECT_EQ(expected.at(name), values) << name;
  EXPECT_NE(own_lines(cases, true), expected);
}

// The first reduction is right here; PyTorch sends memory that holds no gradient yet.
TEST(DdpMixedPrecisionTest, TheFirstReductionIsTheMeanOfRoundedGradients) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    NarrowModel model(rank);
    Wrapped ddp(model, rank.group, {.mixed_precision = MixedPrecision{}});
    step_loss(ddp, rank, 0).backward();
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto half = [i, &rank](std::int64_t r) {
        return of(rank.runtime, {number(r, 0, i)}).to(DType::kF16).at(0);
      };
      const double mean = (half(0) + half(1)) / 2.0;
      EXPECT_EQ(grad_of(model.a)[static_cast<std::size_t>(i)],
                of(rank.runtime, {mean}).to(DType::kF16).at(0));
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 0).back(), "AR f16[8]");
}

// 40,000 twice has no place in a half, so its mean has none: the sum comes before the division.
TEST(DdpMixedPrecisionTest, SumsOverflowBeforeTheyAreDividedUnlessTheyAreWide) {
  for (const bool wide : {false, true}) {
    const MiniResult result = run_mini_world({}, [wide](MiniRank& rank) {
      NarrowModel model(rank);
      MixedPrecision mixed;
      if (wide) mixed.reduce_dtype = DType::kF32;
      Wrapped ddp(model, rank.group, {.mixed_precision = mixed});
      const Variable big(Tensor::full(rank.runtime, {5}, DType::kF32, 40000));
      ddp(big, Variable(Tensor::zeros(rank.runtime, {3}, DType::kF32))).backward();
      EXPECT_EQ(std::isinf(grad_of(model.a)[0]), !wide);
      if (wide) {
        EXPECT_EQ(grad_of(model.a)[0], 40000);
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

std::string mixed_error(const DdpOptions& options,
                        const std::function<void(Wrapped&, MiniRank&)>& body) {
  DdpOptions mixed = options;
  mixed.mixed_precision = MixedPrecision{};
  return run_mini_world({.n_ranks = 1},
                        [&](MiniRank& rank) {
                          NarrowModel model(rank);
                          Wrapped ddp(model, rank.group, mixed);
                          body(ddp, rank);
                        })
      .error(0);
}

// PyTorch's failures, in its words.
TEST(DdpMixedPrecisionTest, FailsWherePyTorchFails) {
  EXPECT_EQ(mixed_error({},
                        [](Wrapped& ddp, MiniRank& rank) {
                          const NoGradGuard no_grad(rank.runtime);
                          step_loss(ddp, rank, 0);
                        }),
            "'NoneType' object has no attribute 'next_functions'");
  const auto without_reduction = [](Wrapped& ddp, MiniRank& rank) {
    {
      const NoSync no_sync(ddp);
      step_loss(ddp, rank, 0).backward();
    }
    step_loss(ddp, rank, 1).backward();
  };
  EXPECT_EQ(mixed_error({}, without_reduction).find("Expected to mark a variable ready only once."),
            0U);
  const auto unused = [](Wrapped& ddp, MiniRank& rank) {
    ddp.before_forward(true);
    const Variable wide = cast(ddp.module().a, DType::kF32);
    ddp.after_forward(sum(mul(wide, Variable(of(rank.runtime, {1, 1, 1, 1, 1}))))).backward();
  };
  EXPECT_EQ(mixed_error({.find_unused_parameters = true}, unused),
            "'NoneType' object has no attribute 'to'");
  EXPECT_EQ(mixed_error({},
                        [](Wrapped& ddp, MiniRank& rank) {
                          MixedPrecisionHook second({}, rank.group, {});
                          ddp.register_comm_hook(second);
                        }),
            "register_comm_hook or register_builtin_comm_hook can only be called once.");
  EXPECT_EQ(mixed_error({},
                        [](Wrapped& ddp, MiniRank& rank) {
                          for (int step = 0; step < 3; ++step)
                            step_loss(ddp, rank, step).backward();
                        }),
            "");
}

TEST(DdpMixedPrecisionTest, WhatIsIgnoredStaysWide) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    NarrowModel model(rank);
    Wrapped ddp(model,
                rank.group,
                {.ignored = {"net.b", "net.seen"},
                 .mixed_precision = MixedPrecision{.buffer_dtype = DType::kF16}});
    const Variable loss = step_loss(ddp, rank, 0);
    EXPECT_EQ(model.a.data().dtype(), DType::kF16);
    EXPECT_EQ(model.b.data().dtype(), DType::kF32);
    EXPECT_EQ(model.seen.data().dtype(), DType::kF32);
    EXPECT_EQ(model.count.data().dtype(), DType::kF16);
    loss.backward();
    EXPECT_EQ(model.a.data().dtype(), DType::kF32);
    EXPECT_EQ(model.frozen.data().dtype(), DType::kF32);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// -- layers that compute in 16 bits

/// One row of weights per dtype, each in a linear layer.
struct NarrowLayers : TinyModel {
  NarrowLayers(Runtime& rt, const std::vector<DType>& dtypes, std::size_t width) : TinyModel(rt) {
    const Values zeros(width, 0.0);
    for (const DType dtype : dtypes) {
      weights.push_back(parameter("net." + std::string(name_of(dtype)), zeros, dtype));
    }
  }

  std::vector<NamedVariable> named_parameters() { return parameters; }

  std::vector<NamedVariable> named_buffers() { return buffers; }

  static bool is_training() { return true; }

  /// Each layer's output, added up in f32. The gradient of each weight is x in its dtype.
  Variable forward(const Variable& x) {
    Variable total;
    for (const Variable& weight : weights) {
      const Variable row = reshape(weight, {1, weight.shape()[0]});
      const Variable input = cast(x, weight.data().dtype());
      const Variable out = sum(cast(linear(input, row, Variable()), DType::kF32));
      total = total.defined() ? add(total, out) : out;
    }
    return total;
  }

  std::vector<Variable> weights;
};

using WrappedLayers = DistributedDataParallel<NarrowLayers>;

Variable narrow_row(Runtime& runtime, const Values& values) {
  const Shape shape{1, static_cast<std::int64_t>(values.size())};
  return Variable(Tensor::of(runtime, shape, DType::kF32, values));
}

Values narrow_input(std::int64_t rank) {
  const auto s = static_cast<double>(std::int64_t{1} << rank);
  return {s, s * 1.5, s * 1.25, s + 3, 7 - s};
}

// What PyTorch 2.15 leaves in .grad of Linear(5, 1) with these inputs on three gloo processes.
const Values kBFloatGrad{2.328125, 3.5, 2.90625, 5.3125, 4.65625};
const Values kHalfGrad{2.333984375, 3.5, 2.91796875, 5.3359375, 4.66796875};

void narrow_step(MiniRank& rank, Values& brain, Values& half) {
  NarrowLayers model(rank.runtime, {DType::kBF16, DType::kF16}, 5);
  WrappedLayers ddp(model, rank.group);
  ddp(narrow_row(rank.runtime, narrow_input(rank.rank))).backward();
  brain = grad_of(model.weights[0]);
  half = grad_of(model.weights[1]);
}

TEST(DdpMixedPrecisionTest, BucketsOfEachTypeAreAveragedWithTheRoundingsOfPyTorchOnGloo) {
  for (const auto order : {ReductionOrder::kGlooRing, ReductionOrder::kRank}) {
    std::vector<Values> brain(3);
    std::vector<Values> half(3);
    const MiniResult result = run_mini_world({.n_ranks = 3, .order = order}, [&](MiniRank& rank) {
      const auto r = static_cast<std::size_t>(rank.rank);
      narrow_step(rank, brain[r], half[r]);
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    const auto calls = collectives_of(*result.trace, 0);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "AR bf16[5]"), 1);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "AR f16[5]"), 1);
    for (std::size_t r = 0; r < 3; ++r) {
      if (order == ReductionOrder::kGlooRing) {
        EXPECT_EQ(brain[r], kBFloatGrad);
        EXPECT_EQ(half[r], kHalfGrad);
      } else {
        EXPECT_NE(brain[r],
                  kBFloatGrad);  // (1/3 + 2/3) + 4/3 is a tie in bf16, 1/3 + (2/3 + 4/3) none.
      }
    }
  }
}

// 2049 is not an f16: the layer sees 2048.
TEST(DdpMixedPrecisionTest, AnOrdinaryLayerComputesInTheParameterTypeOfMixedPrecision) {
  for (const bool mixed : {true, false}) {
    const MiniResult result = run_mini_world({}, [mixed](MiniRank& rank) {
      NarrowLayers model(rank.runtime, {DType::kF32}, 2);
      DdpOptions options;
      if (mixed) options.mixed_precision = MixedPrecision{};
      WrappedLayers ddp(model, rank.group, options);
      const Values x = rank.rank == 0 ? Values{2049, 1} : Values{4, 3};
      ddp(narrow_row(rank.runtime, x)).backward();
      EXPECT_EQ(grad_of(model.weights[0]), (mixed ? Values{1026, 2} : Values{1026.5, 2}));
      EXPECT_EQ(model.weights[0].grad().dtype(), DType::kF32);
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    EXPECT_EQ(collectives_of(*result.trace, 0).back(), mixed ? "AR f16[2]" : "AR f32[2]");
  }
}

}  // namespace
}  // namespace lockstep
