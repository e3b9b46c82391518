// Runs one operation forward and backward on values given as hex words: what the golden files and
// the live comparison of operations ask for.
//
//   NAME DTYPE PARAMETER,... ; KIND SHAPE WORD... ; KIND SHAPE WORD... ...
//
// Kinds: x a leaf, c a constant, b a buffer that the operation writes, i integers (decimal), g the
// gradient of the result. Shapes are 2x3, or - for a scalar. The answer is the result, then the
// gradient of each leaf, then the buffers, each as hex words, with " | " between them. A kind's own
// dtype follows a dot: x.f32. With a DTYPE such as autocast:bf16 the operation runs under autocast.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/autograd/autocast.h"
#include "lockstep/functional/attention.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/image_functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/functional/operators.h"
#include "lockstep/functional/pieces.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/pooling.h"

#include "tests/golden/golden_bits.h"

namespace lockstep::golden {

struct OpCase {
  std::string name;
  DType dtype = DType::kF32;
  bool autocast = false;
  std::vector<double> parameters;
  std::vector<Variable> leaves;
  std::vector<Tensor> constants;
  std::vector<Tensor> buffers;
  std::vector<Tensor> integers;
  Tensor gradient;

  std::int64_t whole(std::size_t i) const { return static_cast<std::int64_t>(parameters.at(i)); }

  bool flag(std::size_t i) const { return parameters.at(i) != 0.0; }

  Variable leaf(std::size_t i) const { return i < leaves.size() ? leaves[i] : Variable(); }

  Kernels::Window window() const { return {whole(0), whole(1), whole(2), whole(3)}; }
};

inline Shape shape_of(std::string_view text) {
  if (text == "-") return {};
  std::vector<std::int64_t> sizes;
  for (const std::string_view size : split(text, 'x')) sizes.push_back(parse_int(size).value());
  return Shape(sizes);
}

inline Tensor integers_of(Runtime& runtime, const Shape& shape, std::istringstream& words) {
  const Tensor tensor = Tensor::empty(runtime, shape, DType::kI64);
  for (std::int64_t& value : tensor.span<std::int64_t>()) words >> value;
  return tensor;
}

inline void add_tensor(Runtime& runtime, OpCase& one, const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  std::string sizes;
  words >> kind >> sizes;
  const Shape shape = shape_of(sizes);
  if (kind == "i") {
    one.integers.push_back(integers_of(runtime, shape, words));
    return;
  }
  std::string rest;
  std::getline(words, rest);
  DType dtype = one.dtype;
  if (const std::size_t dot = kind.find('.'); dot != std::string::npos) {
    dtype = parse_enum<DType>(kind.substr(dot + 1)).value();
    kind.resize(dot);
  }
  const Tensor tensor = WordReader(rest).take(runtime, shape, dtype);
  if (kind == "x") one.leaves.emplace_back(tensor, true);
  if (kind == "c") one.constants.push_back(tensor);
  if (kind == "b") one.buffers.push_back(tensor);
  if (kind == "g") one.gradient = tensor;
}

inline OpCase parse_op(Runtime& runtime, const std::string& line) {
  OpCase one;
  const std::vector<std::string_view> parts = split(line, ';');
  std::istringstream head{std::string(parts[0])};
  std::string dtype;
  std::string parameters;
  head >> one.name >> dtype >> parameters;
  one.autocast = dtype.starts_with("autocast:");
  one.dtype = parse_enum<DType>(dtype.substr(dtype.find(':') + 1)).value();
  for (const std::string_view number : split(parameters, ',')) {
    if (number != "-") one.parameters.push_back(parse_double(number).value());
  }
  for (std::size_t i = 1; i < parts.size(); ++i) add_tensor(runtime, one, std::string(parts[i]));
  return one;
}

struct Op {
  std::string_view name;
  Variable (*run)(const OpCase& in);
};

inline Variable run_batch_norm(const OpCase& in) {
  BatchNormBuffers buffers;
  if (!in.buffers.empty()) buffers = {in.buffers[0], in.buffers[1]};
  return batch_norm(
      in.leaf(0),
      in.leaf(1),
      in.leaf(2),
      buffers,
      {.momentum = in.parameters.at(0), .eps = in.parameters.at(1), .training = in.flag(2)});
}

inline Variable run_dropout(const OpCase& in) {
  Generator generator(static_cast<std::uint64_t>(in.whole(1)));
  return nn::Dropout(in.leaf(0).runtime(), in.parameters.at(0), generator)(in.leaf(0));
}

inline Variable run_gelu(const OpCase& in) {
  return gelu(in.leaf(0), in.flag(0) ? Kernels::Gelu::kTanh : Kernels::Gelu::kErf);
}

inline Variable run_self_attention(const OpCase& in) {
  return self_attention(
      in.leaf(0), {.batch = in.whole(0), .heads = in.whole(1)}, {.causal = in.flag(2)});
}

inline constexpr std::array kOps = {
    Op{"add", [](const OpCase& in) { return add(in.leaf(0), in.leaf(1)); }},
    Op{"sub", [](const OpCase& in) { return sub(in.leaf(0), in.leaf(1)); }},
    Op{"mul", [](const OpCase& in) { return mul(in.leaf(0), in.leaf(1)); }},
    Op{"scale", [](const OpCase& in) { return scale(in.leaf(0), in.parameters.at(0)); }},
    Op{"sum", [](const OpCase& in) { return sum(in.leaf(0)); }},
    Op{"linear", [](const OpCase& in) { return linear(in.leaf(0), in.leaf(1), in.leaf(2)); }},
    Op{"relu", [](const OpCase& in) { return relu(in.leaf(0)); }},
    Op{"tanh", [](const OpCase& in) { return tanh(in.leaf(0)); }},
    Op{"sigmoid", [](const OpCase& in) { return sigmoid(in.leaf(0)); }},
    Op{"gelu", run_gelu},
    Op{"softmax", [](const OpCase& in) { return softmax(in.leaf(0)); }},
    Op{"log_softmax", [](const OpCase& in) { return log_softmax(in.leaf(0)); }},
    Op{"mse",
       [](const OpCase& in) { return mse_loss(in.leaf(0), in.constants[0], in.parameters.at(0)); }},
    Op{"l1",
       [](const OpCase& in) { return l1_loss(in.leaf(0), in.constants[0], in.parameters.at(0)); }},
    Op{"cross_entropy",
       [](const OpCase& in) {
         return cross_entropy(in.leaf(0), in.integers[0], in.parameters.at(0));
       }},
    Op{"batch_norm", run_batch_norm},
    Op{"layer_norm",
       [](const OpCase& in) {
         return layer_norm(in.leaf(0), in.leaf(1), in.leaf(2), in.parameters.at(0));
       }},
    Op{"embedding",
       [](const OpCase& in) { return embedding(in.leaf(0), in.integers[0], in.whole(0)); }},
    Op{"conv2d",
       [](const OpCase& in) {
         return conv2d(
             in.leaf(0), in.leaf(1), in.leaf(2), {.stride = in.whole(0), .padding = in.whole(1)});
       }},
    Op{"max_pool2d", [](const OpCase& in) { return max_pool2d(in.leaf(0), in.window()); }},
    Op{"avg_pool2d", [](const OpCase& in) { return avg_pool2d(in.leaf(0), in.window()); }},
    Op{"global_avg_pool2d",
       [](const OpCase& in) {
         return nn::GlobalAvgPool2d(in.leaf(0).runtime()).forward(in.leaf(0));
       }},
    Op{"flatten",
       [](const OpCase& in) { return nn::Flatten(in.leaf(0).runtime()).forward(in.leaf(0)); }},
    Op{"dropout", run_dropout},
};

inline KeepDim keep_of(const OpCase& in) { return in.flag(1) ? KeepDim::kYes : KeepDim::kNo; }

inline std::size_t dim_of(const OpCase& in) { return static_cast<std::size_t>(in.whole(0)); }

/// ops.txt has them, the files of 16 bits do not.
inline constexpr std::array kFullWidthOps = {
    Op{"cat",
       [](const OpCase& in) { return cat(in.leaves, static_cast<std::size_t>(in.whole(0))); }},
    Op{"stack",
       [](const OpCase& in) { return stack(in.leaves, static_cast<std::size_t>(in.whole(0))); }},
    Op{"slice",
       [](const OpCase& in) {
         return slice(in.leaf(0), static_cast<std::size_t>(in.whole(0)), in.whole(1), in.whole(2));
       }},
    Op{"clone", [](const OpCase& in) { return clone(in.leaf(0)); }},
    Op{"div", [](const OpCase& in) { return div(in.leaf(0), in.leaf(1)); }},
    Op{"div_scalar", [](const OpCase& in) { return div(in.leaf(0), in.parameters.at(0)); }},
    Op{"exp", [](const OpCase& in) { return exp(in.leaf(0)); }},
    Op{"log", [](const OpCase& in) { return log(in.leaf(0)); }},
    Op{"sqrt", [](const OpCase& in) { return sqrt(in.leaf(0)); }},
    Op{"mean", [](const OpCase& in) { return mean(in.leaf(0)); }},
    Op{"sum_dim", [](const OpCase& in) { return sum(in.leaf(0), dim_of(in), keep_of(in)); }},
    Op{"mean_dim", [](const OpCase& in) { return mean(in.leaf(0), dim_of(in), keep_of(in)); }},
    Op{"weighted_cross_entropy",
       [](const OpCase& in) {
         return cross_entropy(in.leaf(0), in.integers[0], in.constants[0], Reduction::kMean);
       }},
    Op{"expand", [](const OpCase& in) { return expand(in.leaf(0), in.gradient.shape()); }},
    Op{"matmul", [](const OpCase& in) { return matmul(in.leaf(0), in.leaf(1)); }},
    Op{"plus_number", [](const OpCase& in) { return in.leaf(0) + in.parameters.at(0); }},
    Op{"number_plus", [](const OpCase& in) { return in.parameters.at(0) + in.leaf(0); }},
    Op{"minus_number", [](const OpCase& in) { return in.leaf(0) - in.parameters.at(0); }},
    Op{"number_minus", [](const OpCase& in) { return in.parameters.at(0) - in.leaf(0); }},
    Op{"times_number", [](const OpCase& in) { return in.leaf(0) * in.parameters.at(0); }},
    Op{"number_times", [](const OpCase& in) { return in.parameters.at(0) * in.leaf(0); }},
    Op{"over_number", [](const OpCase& in) { return in.leaf(0) / in.parameters.at(0); }},
    Op{"number_over", [](const OpCase& in) { return in.parameters.at(0) / in.leaf(0); }},
    Op{"formula",
       [](const OpCase& in) {
         const Variable difference = in.leaf(0) - in.leaf(1);
         return -(difference * in.leaf(0) + difference / in.leaf(1));
       }},
};

/// Those that the files of single operations leave out: autocast_torch2.txt has them.
inline constexpr std::array kAttentionOps = {
    Op{"attention",
       [](const OpCase& in) {
         return attention(in.leaf(0), in.leaf(1), in.leaf(2), {.causal = in.flag(0)});
       }},
    Op{"self_attention", run_self_attention},
};

inline Variable run_as_asked(const Op& op, const OpCase& in) {
  const AutocastGuard autocast(in.leaf(0).runtime(), {.dtype = in.dtype, .enabled = in.autocast});
  return op.run(in);
}

/// The result with its gradients and buffers. Multiplying by the given gradient and summing hands
/// exactly that gradient to the operation.
inline std::vector<Tensor> run_op(const OpCase& in) {
  std::vector<Op> ops(kOps.begin(), kOps.end());
  ops.insert(ops.end(), kFullWidthOps.begin(), kFullWidthOps.end());
  ops.insert(ops.end(), kAttentionOps.begin(), kAttentionOps.end());
  for (const Op& op : ops) {
    if (op.name != in.name) continue;
    const Variable y = run_as_asked(op, in);
    sum(mul(y, Variable(in.gradient))).backward();
    std::vector<Tensor> all{y.data()};
    for (const Variable& leaf : in.leaves) all.push_back(leaf.grad());
    for (const Tensor& buffer : in.buffers) all.push_back(buffer);
    return all;
  }
  fail_check("a known operation", __FILE__, __LINE__, "unknown operation " + in.name);
}

inline std::string answer_op(Runtime& runtime, const std::string& line) {
  std::vector<std::string> parts;
  for (const Tensor& tensor : run_op(parse_op(runtime, line))) {
    parts.push_back(join(bits_of(tensor), " "));
  }
  return join(parts, " | ");
}

}  // namespace lockstep::golden
