// Along dimensions: repeated, summed, averaged.
//
//   x (outer, n, inner)  ->  rows (outer * n, inner), row i of which belongs to i / n
//
// Repeating gathers row i / n of (outer, inner), and summing adds row i to row i / n: each is the
// other's gradient.
#include <algorithm>
#include <fmt/core.h>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/cast.h"
#include "lockstep/functional/detail/broadcast.h"
#include "lockstep/functional/detail/record_unary.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {
namespace {

struct Rows {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;
};

/// For each of the outer * n rows, which of the `outer` it belongs to.
Tensor owners_of(Runtime& runtime, const Rows& rows) {
  const Tensor owners = Tensor::empty(runtime, {rows.outer * rows.n}, DType::kI64);
  auto* const to = owners.write<std::int64_t>();
  for (std::int64_t i = 0; i < owners.n_elems(); ++i) to[i] = i / rows.n;
  return owners;
}

class SumAlongNode final : public Node {
 public:
  explicit SumAlongNode(const Tensor& owners) : owners_(owners) {}

  void run(Tensor&& grad) override {
    const Tensor& owners = owners_.get();
    Tensor out = Tensor::empty(runtime(), {owners.n_elems(), grad.size(1)}, grad.dtype());
    kernels().gather_rows(out, grad, owners);
    send(0, std::move(out));
  }

  void release_saved() override { owners_.reset(); }

 private:
  SavedTensor owners_;
};

class DivScalarNode final : public Node {
 public:
  explicit DivScalarNode(double divisor) : divisor_(divisor) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().div_scalar(out, grad, divisor_);
    send(0, std::move(out));
  }

 private:
  double divisor_;
};

/// Sizes of `shape` with sizes of 1 before them: `n_dims` in all.
std::vector<std::int64_t> padded(const Shape& shape, std::size_t n_dims) {
  std::vector<std::int64_t> sizes(n_dims - shape.n_dims(), 1);
  sizes.insert(sizes.end(), shape.sizes().begin(), shape.sizes().end());
  return sizes;
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/// Each of the `outer` rows `n` times.
Variable repeated(const Variable& x, const Rows& rows) {
  return embedding(reshape(x, {rows.outer, rows.inner}), owners_of(x.runtime(), rows));
}

Rows rows_along(const Shape& shape, std::size_t dim) {
  LOCKSTEP_CHECK(dim < shape.n_dims(),
                 fmt::format("{} has no dimension {}: they are counted from 0", shape.text(), dim));
  const std::span<const std::int64_t> sizes = shape.sizes();
  return {product(sizes.first(dim)), sizes[dim], product(sizes.subspan(dim + 1))};
}

Shape without(const Shape& shape, std::size_t dim, KeepDim keep) {
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(dim);
  if (keep == KeepDim::kYes) {
    *at = 1;
  } else {
    sizes.erase(at);
  }
  return Shape(sizes);
}

/// x is not of 16 bits, whose every addition would be rounded.
Variable sum_along(const Variable& x, std::size_t dim, KeepDim keep) {
  const Rows rows = rows_along(x.shape(), dim);
  const Variable all = reshape(x, {rows.outer * rows.n, rows.inner});
  const Tensor owners = owners_of(x.runtime(), rows);
  Tensor out = Tensor::zeros(x.runtime(), {rows.outer, rows.inner}, x.data().dtype());
  x.runtime().kernels().scatter_add_rows(out, all.data(), owners, -1);
  return reshape(detail::record_unary<SumAlongNode>(std::move(out), all, owners),
                 without(x.shape(), dim, keep));
}

}  // namespace

namespace detail {

Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t n_dims = std::max(a.n_dims(), b.n_dims());
  std::vector<std::int64_t> sizes = padded(a, n_dims);
  const std::vector<std::int64_t> others = padded(b, n_dims);
  for (std::size_t i = 0; i < n_dims; ++i) {
    LOCKSTEP_CHECK(sizes[i] == others[i] || sizes[i] == 1 || others[i] == 1,
                   fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at "
                               "non-singleton dimension {}: {} and {}",
                               sizes[i],
                               others[i],
                               i,
                               a.text(),
                               b.text()));
    if (sizes[i] == 1) sizes[i] = others[i];
  }
  return Shape(sizes);
}

std::pair<Variable, Variable> broadcast(const Variable& a, const Variable& b) {
  const Shape shape = broadcast(a.shape(), b.shape());
  return {expand(a, shape), expand(b, shape)};
}

}  // namespace detail

Variable expand(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  LOCKSTEP_CHECK(
      x.shape().n_dims() <= shape.n_dims() && detail::broadcast(x.shape(), shape) == shape,
      fmt::format(
          "{} cannot be expanded to {}: only sizes of 1 can be", x.shape().text(), shape.text()));
  std::vector<std::int64_t> sizes = padded(x.shape(), shape.n_dims());
  Variable expanded = x;
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t end = first;
    while (end < sizes.size() && sizes[end] != shape[end]) ++end;
    if (end == first) {
      ++first;
      continue;
    }
    const std::span<const std::int64_t> now = sizes;
    const std::span<const std::int64_t> then = shape.sizes();
    expanded = repeated(expanded,
                        {product(now.first(first)),
                         product(then.subspan(first, end - first)),
                         product(now.subspan(end))});
    std::copy(then.begin() + static_cast<std::ptrdiff_t>(first),
              then.begin() + static_cast<std::ptrdiff_t>(end),
              sizes.begin() + static_cast<std::ptrdiff_t>(first));
    first = end;
  }
  return reshape(expanded, shape);
}

Variable sum(const Variable& x, std::size_t dim, KeepDim keep) {
  const DType dtype = x.data().dtype();
  if (!is_narrow(dtype)) return sum_along(x, dim, keep);
  return cast(sum_along(cast(x, DType::kF32), dim, keep), dtype);
}

Variable div(const Variable& x, double divisor) {
  Tensor out = Tensor::empty_like(x.data());
  x.runtime().kernels().div_scalar(out, x.data(), divisor);
  return detail::record_unary<DivScalarNode>(std::move(out), x, divisor);
}

Variable mean(const Variable& x) { return div(sum(x), static_cast<double>(x.data().n_elems())); }

Variable mean(const Variable& x, std::size_t dim, KeepDim keep) {
  const Rows rows = rows_along(x.shape(), dim);
  return div(sum(x, dim, keep), static_cast<double>(rows.n));
}

}  // namespace lockstep
