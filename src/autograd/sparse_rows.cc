#include "lockstep/autograd/sparse_rows.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {
namespace {

/// One row of values, as both precisions are read and written here.
template <typename T>
struct RowsOf {
  explicit RowsOf(const Tensor& tensor) : first(tensor.data<T>()), width(tensor.shape()[1]) {}

  T* row(std::int64_t i) const { return first + (i * width); }

  void copy(std::int64_t to, const T* from) const { std::copy_n(from, width, row(to)); }

  void add(std::int64_t to, const T* from, T alpha) const {
    T* const out = row(to);
    for (std::int64_t d = 0; d < width; ++d) out[d] = std::fma(alpha, from[d], out[d]);
  }

  T* first;
  std::int64_t width;
};

std::span<const std::int64_t> list(const Tensor& indices) {
  return {indices.read<std::int64_t>(), static_cast<std::size_t>(indices.n_elems())};
}

Tensor index_tensor(Runtime& runtime, std::span<const std::int64_t> rows) {
  const Shape shape{static_cast<std::int64_t>(rows.size())};
  Tensor out = Tensor::empty(runtime, shape, DType::kI64);
  std::copy(rows.begin(), rows.end(), out.write<std::int64_t>());
  return out;
}

/// Calls `body` with the precision's value as an argument: the way to a template from a dtype.
template <typename F>
void with_precision(DType dtype, const F& body) {
  if (dtype == DType::kF32) {
    body(float{});
  } else {
    body(double{});
  }
}

/// The places of the entries with their rows ascending.
///
/// Equal rows come in the order in which libstdc++'s std::sort leaves them: that of the list for up
/// to 16 entries, another fixed one beyond. PyTorch sorts so, and its sums have that order.
std::vector<std::int64_t> ascending(std::span<const std::int64_t> rows) {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  order.reserve(rows.size());
  for (const std::int64_t row : rows) {
    order.emplace_back(row, static_cast<std::int64_t>(order.size()));
  }
  std::sort(
      order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::int64_t> places;
  places.reserve(order.size());
  for (const auto& [row, place] : order) places.push_back(place);
  return places;
}

/// One entry of a merge: where it comes from in either list, -1 = not from that one.
struct MergeStep {
  std::int64_t row;
  std::int64_t from_a;
  std::int64_t from_b;
};

/// The row at `place`; past the end, a row larger than any.
std::int64_t head(std::span<const std::int64_t> rows, std::size_t place) {
  return place < rows.size() ? rows[place] : std::numeric_limits<std::int64_t>::max();
}

std::vector<MergeStep> merge_plan(std::span<const std::int64_t> a,
                                  std::span<const std::int64_t> b) {
  std::vector<MergeStep> plan;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const std::int64_t row = std::min(head(a, i), head(b, j));
    const bool take_a = head(a, i) == row;
    const bool take_b = head(b, j) == row;
    plan.push_back({.row = row,
                    .from_a = take_a ? static_cast<std::int64_t>(i) : -1,
                    .from_b = take_b ? static_cast<std::int64_t>(j) : -1});
    if (take_a) ++i;
    if (take_b) ++j;
  }
  return plan;
}

}  // namespace

SparseRows::SparseRows(Tensor&& indices, Tensor&& values, std::int64_t n_rows, bool coalesced)
    : indices_(std::move(indices)),
      values_(std::move(values)),
      n_rows_(n_rows),
      coalesced_(coalesced) {}

Ref<SparseRows> SparseRows::make(Tensor indices,
                                 Tensor values,
                                 std::int64_t n_rows,
                                 bool coalesced) {
  LOCKSTEP_CHECK(
      indices.defined() && indices.dtype() == DType::kI64 && indices.shape().n_dims() == 1 &&
          values.shape().n_dims() == 2 && values.shape()[0] == indices.n_elems(),
      fmt::format(
          "a sparse gradient is a list of rows, i64 (n), and their values (n, D), not {} and {}",
          indices.defined() ? indices.text() : "nothing",
          values.text()));
  LOCKSTEP_CHECK(values.dtype() == DType::kF32 || values.dtype() == DType::kF64,
                 fmt::format("sparse gradients are f32 or f64, not {}", values.text()));
  Runtime& runtime = values.runtime();
  void* block = runtime.pool().allocate(sizeof(SparseRows));
  return Ref<SparseRows>(new (block)
                             SparseRows(std::move(indices), std::move(values), n_rows, coalesced));
}

void SparseRows::destroy() {
  Pool& pool = values_.runtime().pool();
  this->~SparseRows();
  pool.release(this, sizeof(SparseRows));
}

Ref<SparseRows> SparseRows::zeroed() const {
  return make(indices_.rows(0, 0), values_.rows(0, 0), n_rows_, true);
}

Ref<SparseRows> SparseRows::with_values(Tensor values) const {
  return make(indices_, std::move(values), n_rows_, coalesced_);
}

Ref<SparseRows> SparseRows::coalesce() const {
  const std::span<const std::int64_t> rows = list(indices_);
  if (coalesced_ || rows.size() < 2) return make(indices_, values_, n_rows_, true);

  const std::vector<std::int64_t> order = ascending(rows);
  std::vector<std::int64_t> unique;
  std::vector<std::int64_t> target;
  for (const std::int64_t place : order) {
    const std::int64_t row = rows[static_cast<std::size_t>(place)];
    if (unique.empty() || unique.back() != row) unique.push_back(row);
    target.push_back(static_cast<std::int64_t>(unique.size()) - 1);
  }
  const Shape shape{static_cast<std::int64_t>(unique.size()), values_.shape()[1]};
  const Tensor sums = Tensor::empty(values_.runtime(), shape, values_.dtype());
  with_precision(values_.dtype(), [&]<typename T>(T) {
    const RowsOf<T> from(values_);
    const RowsOf<T> to(sums);
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (k == 0 || target[k] != target[k - 1]) {
        to.copy(target[k], from.row(order[k]));
      } else {
        to.add(target[k], from.row(order[k]), T{1});
      }
    }
  });
  return make(index_tensor(values_.runtime(), unique), sums, n_rows_, true);
}

Ref<SparseRows> merge(const SparseRows& a, const SparseRows& b) {
  LOCKSTEP_CHECK(a.dense_shape() == b.dense_shape() && a.values().dtype() == b.values().dtype(),
                 "sparse gradients of " + a.dense_shape().text() + " and " +
                     b.dense_shape().text() + " cannot be added");
  if (b.n_entries() == 0) return a.with_values(a.values());
  if (a.n_entries() == 0) return b.with_values(b.values());
  const std::vector<MergeStep> plan = merge_plan(list(a.indices()), list(b.indices()));
  Runtime& runtime = a.values().runtime();
  const auto n_entries = static_cast<std::int64_t>(plan.size());
  const Tensor values =
      Tensor::zeros(runtime, {n_entries, a.values().shape()[1]}, a.values().dtype());
  std::vector<std::int64_t> rows;
  rows.reserve(plan.size());
  for (const MergeStep& step : plan) rows.push_back(step.row);
  with_precision(values.dtype(), [&]<typename T>(T) {
    const RowsOf<T> from_a(a.values());
    const RowsOf<T> from_b(b.values());
    const RowsOf<T> to(values);
    for (std::int64_t k = 0; k < n_entries; ++k) {
      const MergeStep& step = plan[static_cast<std::size_t>(k)];
      // Added to zero, not copied, as PyTorch does it: -0 becomes 0.
      if (step.from_a >= 0) to.add(k, from_a.row(step.from_a), T{1});
      if (step.from_b >= 0) to.add(k, from_b.row(step.from_b), T{1});
    }
  });
  return SparseRows::make(index_tensor(runtime, rows),
                          values,
                          a.dense_shape()[0],
                          a.is_coalesced() && b.is_coalesced());
}

void add_rows(const Tensor& dense, const SparseRows& rows, double alpha) {
  LOCKSTEP_CHECK(
      dense.shape() == rows.dense_shape() && dense.dtype() == rows.values().dtype(),
      "rows of " + rows.dense_shape().text() + " cannot be added to " + dense.shape().text());
  with_precision(dense.dtype(), [&]<typename T>(T) {
    const RowsOf<T> from(rows.values());
    const RowsOf<T> to(dense);
    std::int64_t k = 0;
    for (const std::int64_t row : list(rows.indices())) {
      to.add(row, from.row(k++), static_cast<T>(alpha));
    }
  });
  dense.storage()->bump_version();
}

void accumulate_sparse(VariableState& state, const Ref<SparseRows>& rows) {
  if (state.grad.defined()) {
    add_rows(state.grad, *rows);
  } else if (state.sparse_grad) {
    state.sparse_grad = merge(*state.sparse_grad, *rows);
  } else {
    state.sparse_grad = rows;
  }
}

Tensor to_dense(const SparseRows& rows) {
  Tensor dense = Tensor::zeros(rows.values().runtime(), rows.dense_shape(), rows.values().dtype());
  add_rows(dense, rows);
  return dense;
}

Tensor whole_gradient(const Variable& leaf) {
  const Ref<SparseRows>& rows = leaf.state().sparse_grad;
  return rows ? to_dense(*rows) : leaf.grad();
}

const Tensor* WholeGradients::make_dense(const Variable& leaf) {
  made_.push_back(std::make_unique<Tensor>(whole_gradient(leaf)));
  return made_.back().get();
}

}  // namespace lockstep
