// Sums over rows and all-reduce arithmetic: strictly left to right, in blocks whose accumulator
// stays in the first-level cache.
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/core.h>
#include <type_traits>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

constexpr std::int64_t kBlock = BlockScratch::kElems;

/// One partial result as the element type would hold it: 16-bit floats round after each step.
template <typename T>
Value<T> in_element_type(Value<T> value) {
  if constexpr (kWrapped<T>) {
    return load(store<T>(value));
  } else {
    return value;
  }
}

/// Integers wrap around, so they add and multiply unsigned.
template <typename V, typename F>
V wrapping(V a, V b, F f) {
  if constexpr (std::is_integral_v<V>) {
    using Wide = std::conditional_t<(sizeof(V) < 8), std::uint32_t, std::uint64_t>;
    return static_cast<V>(f(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return f(a, b);
  }
}

struct Sum {
  template <typename V>
  static V apply(V a, V b) {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};

struct Product {
  template <typename V>
  static V apply(V a, V b) {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};

struct Min {
  template <typename V>
  static V apply(V a, V b) {
    return b < a ? b : a;
  }
};

struct Max {
  template <typename V>
  static V apply(V a, V b) {
    return a < b ? b : a;
  }
};

struct BitAnd {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};

struct BitOr {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};

struct BitXor {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

/// A sum whose accumulator rounds only at the end: of one tensor's elements, not over ranks.
struct WideSum : Sum {};

template <typename T, typename Op>
Value<T> step(Value<T> accumulator, T element) {
  const Value<T> next = Op::apply(accumulator, load(element));
  if constexpr (std::is_same_v<Op, WideSum>) return next;
  return in_element_type<T>(next);
}

/// acc = acc op a; four at a time where possible, which keeps the order and saves accumulator
/// traffic.
template <typename T, typename Op>
void fold(Value<T>* acc, const T* a, std::int64_t n) {
  each(n, [=](std::int64_t i) { acc[i] = step<T, Op>(acc[i], a[i]); });
}

template <typename T, typename Op>
void fold_four(Value<T>* acc, const std::array<const T*, 4>& in, std::int64_t n) {
  const T* const a = in[0];
  const T* const b = in[1];
  const T* const c = in[2];
  const T* const d = in[3];
  each(n, [=](std::int64_t i) {
    const Value<T> two = step<T, Op>(step<T, Op>(acc[i], a[i]), b[i]);
    acc[i] = step<T, Op>(step<T, Op>(two, c[i]), d[i]);
  });
}

/// Folds n_inputs arrays of n <= kBlock elements into `acc`, `input(r)` giving the r-th.
template <typename T, typename Op, typename Input>
void fold_block(Value<T>* acc, std::int64_t n_inputs, std::int64_t n, Input input) {
  const T* const first = input(std::int64_t{0});
  each(n, [=](std::int64_t i) { acc[i] = load(first[i]); });
  std::int64_t r = 1;
  for (; r + 4 <= n_inputs; r += 4) {
    fold_four<T, Op>(acc, {input(r), input(r + 1), input(r + 2), input(r + 3)}, n);
  }
  for (; r < n_inputs; ++r) fold<T, Op>(acc, input(r), n);
}

/// What Kernels::reduce was asked for.
struct Request {
  std::span<void* const> outputs;
  std::span<const void* const> inputs;
  std::int64_t count;
  bool average;
  BlockScratch* scratch;
};

/// Writes one finished block. Every input of the block was read before, so outputs may be inputs.
template <typename T>
void write_block(const Request& request, Value<T>* acc, std::int64_t first, std::int64_t n) {
  if (request.average) {
    const auto n_ranks = static_cast<Value<T>>(request.inputs.size());
    each(n, [=](std::int64_t i) { acc[i] = static_cast<Value<T>>(acc[i] / n_ranks); });
  }
  for (void* const output : request.outputs) {
    T* const o = static_cast<T*>(output) + first;
    each(n, [=](std::int64_t i) { o[i] = store<T>(acc[i]); });
  }
}

template <typename T, typename Op>
void reduce_as(const Request& request) {
  const auto n_inputs = static_cast<std::int64_t>(request.inputs.size());
  const bool in_place = request.outputs.size() == 1 && request.outputs[0] == request.inputs[0];
  if constexpr (!kWrapped<T>) {  // A NaN of 16 bits does not survive a conversion and back.
    if (n_inputs == 1 && in_place && !request.average) return;
  }
  Value<T>* const acc = request.scratch->first<Value<T>>();
  for (std::int64_t first = 0; first < request.count; first += kBlock) {
    const std::int64_t n = std::min(kBlock, request.count - first);
    const auto input = [&](std::int64_t r) {
      return static_cast<const T*>(request.inputs[static_cast<std::size_t>(r)]) + first;
    };
    fold_block<T, Op>(acc, n_inputs, n, input);
    write_block<T>(request, acc, first, n);
  }
}

template <typename T>
void reduce_bits(const Request& request, ReduceOp op) {
  if constexpr (std::is_integral_v<Value<T>>) {
    if (op == ReduceOp::kBand) return reduce_as<T, BitAnd>(request);
    if (op == ReduceOp::kBor) return reduce_as<T, BitOr>(request);
    return reduce_as<T, BitXor>(request);
  } else {
    fail_check("an integral dtype", __FILE__, __LINE__, "bitwise reductions need integers");
  }
}

/// Bools: a sum is a logical or, a product a logical and, as NCCL has it; there is no average.
ReduceOp for_bool(ReduceOp op) {
  LOCKSTEP_CHECK(op != ReduceOp::kAvg && op != ReduceOp::kPremulSum,
                 "a reduction of bool cannot average or scale: truth values have no mean");
  if (op == ReduceOp::kSum) return ReduceOp::kMax;
  if (op == ReduceOp::kProduct) return ReduceOp::kMin;
  return op;
}

template <typename T>
void reduce_typed(const Request& request, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kPremulSum:
    case ReduceOp::kAvg:
      return reduce_as<T, Sum>(request);
    case ReduceOp::kProduct:
      return reduce_as<T, Product>(request);
    case ReduceOp::kMin:
      return reduce_as<T, Min>(request);
    case ReduceOp::kMax:
      return reduce_as<T, Max>(request);
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return reduce_bits<T>(request, op);
  }
}

/// One element after the other.
template <typename T>
void sum_column(T* out, const T* in, std::int64_t n) {
  Value<T> sum = load(in[0]);
  for (std::int64_t i = 1; i < n; ++i) sum = step<T, WideSum>(sum, in[i]);
  *out = rounded<T>(sum);
}

template <typename T>
void write_sums(T* out, const Value<T>* sums, std::int64_t n) {
  each(n, [=](std::int64_t i) { out[i] = rounded<T>(sums[i]); });
}

}  // namespace

void CpuKernels::reduce(std::span<void* const> outputs,
                        std::span<const void* const> inputs,
                        std::int64_t count,
                        DType dtype,
                        ReduceOp op) {
  LOCKSTEP_CHECK(!inputs.empty(), "a reduction has at least one input");
  if (dtype == DType::kBool) op = for_bool(op);
  const Request request{outputs, inputs, count, op == ReduceOp::kAvg, &scratch_};
  for_any(dtype, [&](auto tag) { reduce_typed<decltype(tag)>(request, op); });
}

void CpuKernels::sum_rows(const Tensor& out, const Tensor& in) {
  const std::int64_t width = out.n_elems();
  LOCKSTEP_CHECK(width > 0 && in.n_elems() % width == 0 && in.n_elems() > 0,
                 fmt::format("cannot sum the rows of {} into {}", in.text(), out.text()));
  const std::int64_t n_rows = in.n_elems() / width;
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if (width == 1) return sum_column(out.write<T>(), in.read<T>(), n_rows);
    Value<T>* const acc = scratch_.first<Value<T>>();
    for (std::int64_t first = 0; first < width; first += kBlock) {
      const std::int64_t n = std::min(kBlock, width - first);
      const T* const column = in.read<T>() + first;
      T* const o = out.write<T>() + first;
      fold_block<T, WideSum>(
          acc, n_rows, n, [=](std::int64_t row) { return column + row * width; });
      write_sums(o, acc, n);
    }
  });
}

void CpuKernels::sum_channels(const Tensor& out, const Tensor& in) {
  LOCKSTEP_CHECK(in.shape().n_dims() >= 2 && in.size(1) == out.n_elems(),
                 fmt::format("cannot sum the channels of {} into {}", in.text(), out.text()));
  if (in.n_elems() == 0) return fill(out, 0.0);
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t n_channels = out.n_elems();
    const std::int64_t n_planes = in.size(0) * n_channels;
    const std::int64_t width = in.n_elems() / n_planes;
    const T* const all = in.read<T>();
    T* const o = out.write<T>();
    for (std::int64_t channel = 0; channel < n_channels; ++channel) {
      Value<T> sum{0};
      for (std::int64_t plane = channel; plane < n_planes; plane += n_channels) {
        const T* const x = all + plane * width;
        for (std::int64_t i = 0; i < width; ++i) sum += load(x[i]);
      }
      o[channel] = rounded<T>(sum);
    }
  });
}

void CpuKernels::sum_all(const Tensor& out, const Tensor& in) {
  LOCKSTEP_CHECK(out.n_elems() == 1,
                 fmt::format("the sum of all elements is a scalar, not {}", out.text()));
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    Value<T> sum{0};
    for (const T x : in.read_span<T>()) sum += load(x);
    *out.write<T>() = rounded<T>(sum);
  });
}

}  // namespace lockstep::detail
