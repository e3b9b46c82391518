// Products, sums, losses and observers: what adds up.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "lockstep/gpu/cuda/blas.h"
#include "lockstep/gpu/cuda/detail/operands.cuh"
#include "lockstep/gpu/cuda/ops/blocked_product.cuh"
#include "lockstep/gpu/cuda/ops/fold.cuh"
#include "lockstep/gpu/cuda/ops/sums.cuh"
#include "lockstep/gpu/cuda/ops/vector_product.cuh"

namespace lockstep::cuda {

namespace {

constexpr std::int64_t kLargeFrom = std::int64_t{64} * 64 * 64;  // Multiplications, as on the CPU.

/// Parts of a result whose order is free: as many threads as help, each with one word of scratch.
std::int64_t parts_for(std::int64_t n) {
  constexpr std::int64_t kMost = Executor::kScratchBytes / sizeof(double);
  return std::min(n, kMost);
}

Product describe(const Tensor& out,
                 const Tensor& a,
                 const Tensor& b,
                 const Kernels::Gemm& options) {
  LOCKSTEP_CHECK(out.shape().n_dims() == 2 && a.shape().n_dims() == 2 && b.shape().n_dims() == 2,
                 "a matrix product takes and gives matrices");
  const std::size_t a_rows = options.transpose_a ? 1 : 0;
  const std::size_t b_rows = options.transpose_b ? 1 : 0;
  const Product product{.m = a.size(a_rows),
                        .n = b.size(1 - b_rows),
                        .k = a.size(1 - a_rows),
                        .transpose_a = options.transpose_a,
                        .transpose_b = options.transpose_b,
                        .accumulate = options.accumulate};
  LOCKSTEP_CHECK(b.size(b_rows) == product.k, "the inner sizes of a matrix product agree");
  LOCKSTEP_CHECK(out.size(0) == product.m && out.size(1) == product.n,
                 "a matrix product has shape (M, N)");
  return product;
}

template <typename T>
ProductElement<T> element_of(T* out, const T* a, const T* b, const Product& p) {
  return {.out = out,
          .a = a,
          .b = b,
          .n = p.n,
          .k = p.k,
          .a_row = p.transpose_a ? 1 : p.k,
          .a_column = p.transpose_a ? p.m : 1,
          .b_row = p.transpose_b ? 1 : p.n,
          .b_column = p.transpose_b ? p.k : 1,
          .accumulate = p.accumulate};
}

}  // namespace

void CudaKernels::gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) {
  if (is_narrow(out.dtype())) return host_->gemm(out, a, b, options);
  const Product p = describe(out, a, b, options);
  const bool large = p.m * p.n * p.k >= kLargeFrom;
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const ProductElement<T> element = element_of<T>(at<T>(out), at<T>(a), at<T>(b), p);
    if (large && blas_ != nullptr) {
      blas_->multiply(element.out, element.a, element.b, p);
      executor_->mark_busy();
    } else if (large && p.m > 1 && p.n > 1) {
      const ProductOrder order = ProductOrder::of<T>(p.m, p.n, p.k);
      executor_->run(p.m * p.n, BlockedProductElement<T>{element, order});
    } else if (large && p.m * p.n > 1) {
      const bool dots = p.n == 1 ? !p.transpose_a : p.transpose_b;
      const VectorOrder order = VectorOrder::of<T>(p.m * p.n, p.k, dots);
      executor_->run(p.m * p.n, VectorProductElement<T>{element, order});
    } else {
      executor_->run(p.m * p.n, element);
    }
  });
}

void CudaKernels::sum_rows(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->sum_rows(out, in);
  const std::int64_t width = out.n_elems();
  LOCKSTEP_CHECK(width > 0 && in.n_elems() % width == 0 && in.n_elems() > 0,
                 "the output is as long as one row");
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(width, SumRows<T>{at<T>(out), at<T>(in), in.n_elems() / width, width});
  });
}

void CudaKernels::sum_channels(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->sum_channels(out, in);
  LOCKSTEP_CHECK(in.shape().n_dims() >= 2 && in.size(1) == out.n_elems(), "one sum per channel");
  const std::int64_t n_planes = in.size(0) * in.size(1);
  const std::int64_t inner = n_planes == 0 ? 0 : in.n_elems() / n_planes;
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const SumChannels<T> sums{at<T>(out), at<T>(in), in.size(0), in.size(1), inner};
    executor_->run(out.n_elems(), sums);
  });
}

void CudaKernels::sum_all(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->sum_all(out, in);
  LOCKSTEP_CHECK(out.n_elems() == 1, "the sum of all elements is a scalar");
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(1, SumAll<T>{at<T>(out), at<T>(in), in.n_elems()});
  });
}

template <bool kSquared>
void CudaKernels::loss(const Tensor& out,
                       const Tensor& x,
                       const Tensor& target,
                       double denominator) {
  const std::int64_t n = agreed_elems(x, target);
  LOCKSTEP_CHECK(out.n_elems() == 1, "a loss is a scalar");
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T by = static_cast<T>(denominator);
    using Sum = LossOfDifference<T, kSquared>;
    executor_->run(1, Sum{at<T>(out), at<T>(x), at<T>(target), n, by});
  });
}

void CudaKernels::mse(const Tensor& out,
                      const Tensor& x,
                      const Tensor& target,
                      double denominator) {
  if (is_narrow(out.dtype())) return host_->mse(out, x, target, denominator);
  loss<true>(out, x, target, denominator);
}

void CudaKernels::l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) {
  if (is_narrow(out.dtype())) return host_->l1(out, x, target, denominator);
  loss<false>(out, x, target, denominator);
}

double CudaKernels::norm(const Tensor& in, double p) {
  if (is_narrow(in.dtype())) return host_->norm(in, p);
  LOCKSTEP_CHECK(std::isinf(p) || p == 1.0 || p == 2.0, "norms are of order 1, 2 or infinity");
  const std::int64_t n = in.n_elems();
  auto* const parts = static_cast<double*>(executor_->scratch());
  const std::int64_t n_parts = std::isinf(p) ? parts_for(n) : 8;
  double result = 0.0;
  executor_->settle();  // Nothing else uses the scratch.
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if (std::isinf(p)) {
      executor_->run(n_parts, LargestPart<T>{parts, at<T>(in), n, n_parts});
    } else if (p == 1.0) {
      executor_->run(n_parts, NormLane<T, false>{parts, at<T>(in), n});
    } else {
      executor_->run(n_parts, NormLane<T, true>{parts, at<T>(in), n});
    }
    executor_->settle();
    for (std::int64_t part = 0; part < n_parts; ++part) {
      if (!std::isinf(p)) {
        result = part == 0 ? parts[0] : result + parts[part];
      } else if (std::isnan(parts[part]) || result < parts[part]) {
        result = parts[part];
      }
      if (std::isinf(p) && std::isnan(result)) break;
    }
    result = static_cast<double>(static_cast<T>(p == 2.0 ? std::sqrt(result) : result));
  });
  return result;
}

bool CudaKernels::unscale(const Tensor& grad, double factor) {
  if (is_narrow(grad.dtype())) return host_->unscale(grad, factor);
  const std::int64_t n = grad.n_elems();
  const std::int64_t n_parts = parts_for(n);
  auto* const parts = static_cast<double*>(executor_->scratch());
  executor_->settle();
  for_float(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n_parts, FinitePart<T>{parts, at<T>(grad), n, n_parts});
  });
  scale(grad, grad, static_cast<double>(static_cast<float>(factor)));
  executor_->settle();
  return std::any_of(parts, parts + n_parts, [](double finite) { return finite == 0.0; });
}

std::uint64_t CudaKernels::digest(const Tensor& in, std::uint64_t base) {
  const std::int64_t n = in.n_elems();
  const std::int64_t n_parts = parts_for(n);
  auto* const parts = static_cast<std::uint64_t*>(executor_->scratch());
  executor_->settle();
  const auto add_up = [&](auto word) {
    using Word = decltype(word);
    const auto* const x = reinterpret_cast<const Word*>(bytes(in));
    executor_->run(n_parts, DigestPart<Word>{parts, x, n, n_parts, base});
  };
  switch (size_of(in.dtype())) {
    case 1:
      add_up(std::uint8_t{});
      break;
    case 2:
      add_up(std::uint16_t{});
      break;
    case 4:
      add_up(std::uint32_t{});
      break;
    default:
      add_up(std::uint64_t{});
      break;
  }
  executor_->settle();
  std::uint64_t sum = 0;
  for (std::int64_t part = 0; part < n_parts; ++part) sum += parts[part];
  return sum;
}

Sketch CudaKernels::sketch(const Tensor& in) {
  LOCKSTEP_CHECK(is_floating(in.dtype()), "only floating-point tensors have a sketch");
  auto* const lanes = static_cast<double*>(executor_->scratch());
  executor_->settle();
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Lane = SketchLane<T>;
    const auto* const x = reinterpret_cast<const T*>(bytes(in));
    executor_->run(Lane::kLanes * Lane::kSums, Lane{lanes, x, in.n_elems()});
  });
  executor_->settle();
  const auto total = [lanes](std::size_t sum) {
    double result = 0.0;
    for (std::size_t s = 0; s < Sketch::kLanes; ++s) result += lanes[sum * Sketch::kLanes + s];
    return result;
  };
  Sketch sketch;
  sketch.l1 = total(0);
  for (std::size_t j = 0; j < sketch.sums.size(); ++j) sketch.sums[j] = total(j + 1);
  return sketch;
}

bool CudaKernels::reaches_all(std::span<void* const> outputs,
                              std::span<const void* const> inputs,
                              std::int64_t n_bytes) const {
  const auto most = static_cast<std::size_t>(FoldLists::kMost);
  if (inputs.size() > most || outputs.size() > most) return false;
  const auto reaches = [&](const void* data) {
    return memory_ == nullptr || memory_->owns(data, static_cast<std::size_t>(n_bytes));
  };
  return std::all_of(outputs.begin(), outputs.end(), reaches) &&
         std::all_of(inputs.begin(), inputs.end(), reaches);
}

void CudaKernels::reduce(std::span<void* const> outputs,
                         std::span<const void* const> inputs,
                         std::int64_t count,
                         DType dtype,
                         ReduceOp op) {
  LOCKSTEP_CHECK(!inputs.empty(), "a reduction has at least one input");
  if (!reaches_all(outputs, inputs, count * size_of(dtype))) {
    executor_->settle();
    return host_->reduce(outputs, inputs, count, dtype, op);
  }
  const bool bits = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  LOCKSTEP_CHECK(!bits || !is_floating(dtype), "bitwise reductions need integers");
  if (dtype == DType::kBool) {  // A sum is a logical or, a product a logical and.
    LOCKSTEP_CHECK(op != ReduceOp::kAvg && op != ReduceOp::kPremulSum, "bools have no average");
    if (op == ReduceOp::kSum) op = ReduceOp::kMax;
    if (op == ReduceOp::kProduct) op = ReduceOp::kMin;
  }
  FoldLists lists{};
  lists.n_inputs = static_cast<std::int64_t>(inputs.size());
  lists.n_outputs = static_cast<std::int64_t>(outputs.size());
  std::copy(inputs.begin(), inputs.end(), lists.inputs);
  std::copy(outputs.begin(), outputs.end(), lists.outputs);
  for_any(dtype, [&](auto tag) { executor_->run(count, FoldRanks<decltype(tag)>{lists, op}); });
  executor_->settle();  // Raw memory: its owner reads it without asking us.
}

}  // namespace lockstep::cuda
