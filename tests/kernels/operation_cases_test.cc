#include "tests/kernels/operation_cases.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

namespace lockstep::testing {

namespace {

using L = const OperandList&;
using Specs = std::vector<OperandSpec>;

std::span<const Tensor> part(const OperandList& list, std::size_t first, std::size_t n) {
  return std::span(list).subspan(first, n);
}

const Shape kSquare{3, 3};
const Shape kRow{3};
const Shape kPair{2};
const Shape kOne{};
const Shape kTall{4, 2};
const Shape kImages{2, 3, 2};
const Shape kPlane{1, 1, 4, 4};
const Shape kPooled{1, 1, 2, 2};

const Specs kTwo = {{kSquare}, {kSquare}};
const Specs kThree = {{kSquare}, {kSquare}, {kSquare}};
const Specs kLoss = {{kOne}, {kSquare}, {kSquare}};
const Specs kLossBackward = {{kSquare}, {kOne}, {kSquare}, {kSquare}};

constexpr Kernels::Window kTwoByTwo{.height = 2, .width = 2, .stride = 2};

void add_element_wise(std::vector<OperationCase>& cases) {
  const auto add = [&cases](KernelOp op, const Specs& specs, auto run) {
    cases.emplace_back(op, specs, run);
  };
  add(kernel_op("fill"), {{kSquare}}, [](Kernels& k, L t) { k.fill(t[0], 2.0); });
  add(kernel_op("copy"), kTwo, [](Kernels& k, L t) { k.copy(t[0], t[1]); });
  add(kernel_op("add"), kThree, [](Kernels& k, L t) { k.add(t[0], t[1], t[2]); });
  add(kernel_op("sub"), kThree, [](Kernels& k, L t) { k.sub(t[0], t[1], t[2]); });
  add(kernel_op("mul"), kThree, [](Kernels& k, L t) { k.mul(t[0], t[1], t[2]); });
  add(kernel_op("div"), kThree, [](Kernels& k, L t) { k.div(t[0], t[1], t[2]); });
  add(kernel_op("scale"), kTwo, [](Kernels& k, L t) { k.scale(t[0], t[1], 3.0); });
  add(kernel_op("div_scalar"), kTwo, [](Kernels& k, L t) { k.div_scalar(t[0], t[1], 3.0); });
  add(kernel_op("add_scaled"), kThree, [](Kernels& k, L t) {
    k.add_scaled(t[0], t[1], t[2], 0.5);
  });
  add(kernel_op("add_row"), {{kSquare}, {kSquare}, {kRow}}, [](Kernels& k, L t) {
    k.add_row(t[0], t[1], t[2]);
  });
  add(kernel_op("add_channels"), {{kImages}, {kImages}, {kRow}}, [](Kernels& k, L t) {
    k.add_channels(t[0], t[1], t[2]);
  });
  add(kernel_op("relu"), kTwo, [](Kernels& k, L t) { k.relu(t[0], t[1]); });
  add(kernel_op("relu_backward"), kThree, [](Kernels& k, L t) {
    k.relu_backward(t[0], t[1], t[2]);
  });
  add(kernel_op("tanh"), kTwo, [](Kernels& k, L t) { k.tanh(t[0], t[1]); });
  add(kernel_op("tanh_backward"), kThree, [](Kernels& k, L t) {
    k.tanh_backward(t[0], t[1], t[2]);
  });
  add(kernel_op("sigmoid"), kTwo, [](Kernels& k, L t) { k.sigmoid(t[0], t[1]); });
  add(kernel_op("sigmoid_backward"), kThree, [](Kernels& k, L t) {
    k.sigmoid_backward(t[0], t[1], t[2]);
  });
  add(kernel_op("exp"), kTwo, [](Kernels& k, L t) { k.exp(t[0], t[1]); });
  add(kernel_op("log"), kTwo, [](Kernels& k, L t) { k.log(t[0], t[1]); });
  add(kernel_op("sqrt"), kTwo, [](Kernels& k, L t) { k.sqrt(t[0], t[1]); });
  add(kernel_op("round_to_grid"), kTwo, [](Kernels& k, L t) {
    k.round_to_grid(t[0], t[1], 2, 8.0);
  });
  add(kernel_op("clamp"), kTwo, [](Kernels& k, L t) { k.clamp(t[0], t[1], 0.75); });
  add(kernel_op("average_into_bucket"), kTwo, [](Kernels& k, L t) {
    k.average_into_bucket(t[0], t[1], 2.0);
  });
}

void add_sums_and_losses(std::vector<OperationCase>& cases) {
  const auto add = [&cases](KernelOp op, const Specs& specs, auto run) {
    cases.emplace_back(op, specs, run);
  };
  for (const bool accumulate : {false, true}) {
    add(kernel_op("gemm"), kThree, [accumulate](Kernels& k, L t) {
      k.gemm(t[0], t[1], t[2], {.accumulate = accumulate});
    });
  }
  add(kernel_op("sum_rows"), {{kRow}, {kSquare}}, [](Kernels& k, L t) { k.sum_rows(t[0], t[1]); });
  add(kernel_op("sum_channels"), {{kRow}, {kImages}}, [](Kernels& k, L t) {
    k.sum_channels(t[0], t[1]);
  });
  add(kernel_op("sum_all"), {{kOne}, {kSquare}}, [](Kernels& k, L t) { k.sum_all(t[0], t[1]); });
  add(kernel_op("mse"), kLoss, [](Kernels& k, L t) { k.mse(t[0], t[1], t[2], 9.0); });
  add(kernel_op("mse_backward"), kLossBackward, [](Kernels& k, L t) {
    k.mse_backward(t[0], t[1], t[2], t[3], 9.0);
  });
  add(kernel_op("l1"), kLoss, [](Kernels& k, L t) { k.l1(t[0], t[1], t[2], 9.0); });
  add(kernel_op("l1_backward"), kLossBackward, [](Kernels& k, L t) {
    k.l1_backward(t[0], t[1], t[2], t[3], 9.0);
  });
  const OperandSpec labels{kRow, Content::kIndices, 3};
  add(kernel_op("cross_entropy"), {{kOne}, {kSquare}, {kSquare}, labels}, [](Kernels& k, L t) {
    k.cross_entropy(t[0], t[1], t[2], t[3], 3.0);
  });
  add(kernel_op("cross_entropy_backward"),
      {{kSquare}, {kOne}, {kSquare}, labels},
      [](Kernels& k, L t) { k.cross_entropy_backward(t[0], t[1], t[2], t[3], 3.0); });
  add(kernel_op("norm"), {{kSquare}}, [](Kernels& k, L t) { return k.norm(t[0], 2.0); });
  add(kernel_op("unscale"), {{kSquare}}, [](Kernels& k, L t) {
    return k.unscale(t[0], 2.0) ? 1.0 : 0.0;
  });
  add(kernel_op("reduce"), kThree, [](Kernels& k, L t) {
    const std::array<void*, 1> outputs = {t[0].raw()};
    const std::array<const void*, 2> inputs = {t[1].raw(), t[2].raw()};
    k.reduce(outputs, inputs, t[0].n_elems(), t[0].dtype(), ReduceOp::kSum);
  });
}

void add_norms(std::vector<OperationCase>& cases) {
  const auto add = [&cases](KernelOp op, const Specs& specs, auto run) {
    cases.emplace_back(op, specs, run);
  };
  const OperandSpec variance{kPair, Content::kPositive};
  for (const bool training : {false, true}) {
    add(kernel_op("batch_norm"),
        {{kTall}, {kTall}, {kPair}, {kPair}, {kPair}, variance, {kPair}, {kPair}},
        [training](Kernels& k, L t) {
          k.batch_norm(t[0], part(t, 1, 3), part(t, 4, 2), part(t, 6, 2), {.training = training});
        });
  }
  add(kernel_op("batch_norm_backward"),
      {{kTall}, {kPair}, {kPair}, {kTall}, {kTall}, {kPair}, {kPair}, {kPair}},
      [](Kernels& k, L t) { k.batch_norm_backward(part(t, 0, 3), part(t, 3, 3), part(t, 6, 2)); });
  add(kernel_op("batch_norm_stats"), {{kPair}, {kPair}, {kTall}}, [](Kernels& k, L t) {
    k.batch_norm_stats(part(t, 0, 2), t[2], 1e-5);
  });
  const OperandSpec rows{{2, 5}, Content::kPositive};
  add(kernel_op("batch_norm_merge_stats"),
      {{kPair}, {kPair}, {kPair}, {kPair}, rows},
      [](Kernels& k, L t) {
        k.batch_norm_merge_stats(part(t, 0, 2), part(t, 2, 2), t[4], {.eps = 0.0});
      });
  add(kernel_op("batch_norm_apply"),
      {{kTall}, {kTall}, {kPair}, {kPair}, {kPair}, {kPair}},
      [](Kernels& k, L t) { k.batch_norm_apply(t[0], part(t, 1, 3), part(t, 4, 2)); });
  add(kernel_op("batch_norm_sums"),
      {{{4}}, {kPair}, {kPair}, {kTall}, {kTall}, {kPair}, {kPair}},
      [](Kernels& k, L t) {
        k.batch_norm_sums(t[0], part(t, 1, 2), part(t, 3, 2), part(t, 5, 2));
      });
  add(kernel_op("batch_norm_spread"),
      {{kTall}, {kTall}, {kTall}, {kPair}, {kPair}, {kPair}, {{4}}},
      [](Kernels& k, L t) { k.batch_norm_spread(t[0], part(t, 1, 3), part(t, 4, 2), t[6], 4.0); });
  add(kernel_op("layer_norm"),
      {{kSquare}, {kSquare}, {kRow}, {kRow}, {kRow}, {kRow}},
      [](Kernels& k, L t) { k.layer_norm(t[0], part(t, 1, 3), part(t, 4, 2), 1e-5); });
  add(kernel_op("layer_norm_backward"),
      {{kSquare}, {kRow}, {kRow}, {kSquare}, {kSquare}, {kRow}, {kRow}, {kRow}},
      [](Kernels& k, L t) { k.layer_norm_backward(part(t, 0, 3), part(t, 3, 3), part(t, 6, 2)); });
}

void add_layers(std::vector<OperationCase>& cases) {
  const auto add = [&cases](KernelOp op, const Specs& specs, auto run) {
    cases.emplace_back(op, specs, run);
  };
  for (const Kernels::Softmax& options :
       {Kernels::Softmax{}, Kernels::Softmax{.log = true}, Kernels::Softmax{.causal = true}}) {
    add(kernel_op("softmax"), kTwo, [options](Kernels& k, L t) { k.softmax(t[0], t[1], options); });
    add(kernel_op("softmax_backward"), kThree, [options](Kernels& k, L t) {
      k.softmax_backward(t[0], t[1], t[2], options);
    });
  }
  for (const Kernels::Gelu form : {Kernels::Gelu::kErf, Kernels::Gelu::kTanh}) {
    add(kernel_op("gelu"), kTwo, [form](Kernels& k, L t) { k.gelu(t[0], t[1], form); });
    add(kernel_op("gelu_backward"), kThree, [form](Kernels& k, L t) {
      k.gelu_backward(t[0], t[1], t[2], form);
    });
  }
  const OperandSpec three_of_four{kRow, Content::kIndices, 4};
  add(kernel_op("gather_rows"), {{{3, 2}}, {kTall}, three_of_four}, [](Kernels& k, L t) {
    k.gather_rows(t[0], t[1], t[2]);
  });
  add(kernel_op("scatter_add_rows"), {{kTall}, {{3, 2}}, three_of_four}, [](Kernels& k, L t) {
    k.scatter_add_rows(t[0], t[1], t[2], -1);
  });
  add(kernel_op("swap_middle"), {{{1, 3, 2, 2}}, {{1, 2, 3, 2}}}, [](Kernels& k, L t) {
    k.swap_middle(t[0], t[1]);
  });
  add(kernel_op("unfold"), {{{4, 4}}, {{1, 4, 4}}}, [](Kernels& k, L t) {
    k.unfold(t[0], t[1], kTwoByTwo);
  });
  add(kernel_op("fold"), {{{1, 4, 4}}, {{4, 4}}}, [](Kernels& k, L t) {
    k.fold(t[0], t[1], kTwoByTwo);
  });
  const OperandSpec positions{kPooled, Content::kIndices, 16};
  add(kernel_op("max_pool"), {{kPooled}, positions, {kPlane}}, [](Kernels& k, L t) {
    k.max_pool(t[0], t[1], t[2], kTwoByTwo);
  });
  add(kernel_op("max_pool_backward"), {{kPlane}, {kPooled}, positions}, [](Kernels& k, L t) {
    k.max_pool_backward(t[0], t[1], t[2]);
  });
  add(kernel_op("avg_pool"), {{kPooled}, {kPlane}}, [](Kernels& k, L t) {
    k.avg_pool(t[0], t[1], kTwoByTwo);
  });
  add(kernel_op("avg_pool_backward"), {{kPlane}, {kPooled}}, [](Kernels& k, L t) {
    k.avg_pool_backward(t[0], t[1], kTwoByTwo);
  });
}

void add_updates(std::vector<OperationCase>& cases) {
  const auto add = [&cases](KernelOp op, const Specs& specs, auto run) {
    cases.emplace_back(op, specs, run);
  };
  const OperandSpec squares{kSquare, Content::kPositive};
  add(kernel_op("sgd"), kThree, [](Kernels& k, L t) {
    k.sgd(t[0], t[1], t[2], {.momentum = 0.5});
  });
  add(kernel_op("adam"), {{kSquare}, {kSquare}, {kSquare}, squares, squares}, [](Kernels& k, L t) {
    k.adam(t[0], t[1], part(t, 2, 3), {.amsgrad = true});
  });
  add(kernel_op("adagrad"), {{kSquare}, {kSquare}, squares}, [](Kernels& k, L t) {
    k.adagrad(t[0], t[1], t[2], {});
  });
  add(kernel_op("rmsprop"),
      {{kSquare}, {kSquare}, {kSquare, Content::kPositive}, {kSquare}, {kSquare}},
      [](Kernels& k, L t) {
        k.rmsprop(t[0], t[1], part(t, 2, 3), {.momentum = 0.5, .centered = true});
      });
}

double first_number(const OperandSpec& spec, std::size_t at, std::int64_t i) {
  const auto drawn = static_cast<double>((i * 5 + static_cast<std::int64_t>(at) * 7 + 3) % 11);
  if (spec.content == Content::kPositive) return 1.25 + drawn / 4;
  return (drawn - 4.625) / 4;
}

}  // namespace

std::vector<OperationCase> operation_cases() {
  std::vector<OperationCase> cases;
  add_element_wise(cases);
  add_sums_and_losses(cases);
  add_norms(cases);
  add_layers(cases);
  add_updates(cases);
  return cases;
}

OperandList make_operands(Runtime& runtime, const OperationCase& c, std::size_t other) {
  OperandList list;
  for (std::size_t at = 0; at < c.operands.size(); ++at) {
    const OperandSpec& spec = c.operands[at];
    const bool indices = spec.content == Content::kIndices;
    const DType dtype = indices ? DType::kI64 : DType::kF32;
    std::vector<double> values(static_cast<std::size_t>(spec.shape.n_elems()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto flat = static_cast<std::int64_t>(i);
      if (indices) {
        values[i] = static_cast<double>((flat * 3 + (at == other ? 2 : 1)) % spec.limit);
      } else {
        values[i] = first_number(spec, at, flat) * (at == other ? 1.375 : 1.0);
        if (at == other && spec.content == Content::kNumbers) values[i] = -values[i];
      }
    }
    list.push_back(Tensor::of(runtime, spec.shape, dtype, values));
  }
  return list;
}

namespace {

TEST(OperationCasesTest, EveryOperationHasOne) {
  const std::vector<OperationCase> cases = operation_cases();
  for (const KernelOp op : every<KernelOp>()) {
    EXPECT_TRUE(std::any_of(
        cases.begin(), cases.end(), [op](const OperationCase& c) { return c.op == op; }))
        << name_of(op) << ": give it a case in tests/kernels/operation_cases_test.cc";
  }
}

}  // namespace

}  // namespace lockstep::testing
