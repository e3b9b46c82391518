// Sparse gradients: the rows of a table that a batch has touched, instead of the whole table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// A gradient of shape (V, D) that is zero but for some rows. A row may be listed more than once:
/// its gradient is the sum of its entries.
///
/// Shapes: `indices` i64 (n), each in [0, V); `values` (n, D) of floating type. Immutable, so that
///     handles may share it.
/// Source: PyTorch's sparse COO tensors with one sparse dimension, as nn.Embedding(sparse=True)
///     makes them. Every function below adds in the order of its 1.13 namesake.
class SparseRows final : public Counted {
 public:
  /// Requires: the shapes above. `n_rows` is V.
  static Ref<SparseRows> make(Tensor indices,
                              Tensor values,
                              std::int64_t n_rows,
                              bool coalesced = false);

  const Tensor& indices() const { return indices_; }

  const Tensor& values() const { return values_; }

  std::int64_t n_entries() const { return indices_.n_elems(); }

  Shape dense_shape() const { return {n_rows_, values_.shape()[1]}; }

  /// Whether each row is listed at most once, in ascending order.
  bool is_coalesced() const { return coalesced_; }

  /// This gradient with each row listed once, ascending. Up to 16 entries, those of a row are added
  /// in the order of the list; beyond, in the order in which std::sort leaves them, as in PyTorch.
  Ref<SparseRows> coalesce() const;

  /// A gradient of the same shape without entries: zero_grad(set_to_none=False).
  Ref<SparseRows> zeroed() const;

  /// The same rows with other values. Requires: one row of values an entry.
  Ref<SparseRows> with_values(Tensor values) const;

 private:
  SparseRows(Tensor&& indices, Tensor&& values, std::int64_t n_rows, bool coalesced);
  ~SparseRows() override = default;
  void destroy() override;

  Tensor indices_;
  Tensor values_;
  std::int64_t n_rows_;
  bool coalesced_;
};

/// a + b, still sparse: both lists are merged by comparing their heads, and two heads that name the
/// same row become one entry. With lists out of order a row may still be listed more than once. A
/// list without entries leaves the other as it is.
/// Requires: equal dense shapes and dtypes.
Ref<SparseRows> merge(const SparseRows& a, const SparseRows& b);

/// dense[row] += alpha * value (one fma per element) for each entry, in the order of the list.
/// Requires: `dense` of the sparse gradient's dense shape and dtype.
void add_rows(const Tensor& dense, const SparseRows& rows, double alpha = 1.0);

/// Adds `rows` to whatever gradient `state` has, as PyTorch's AccumulateGrad: sparse and sparse are
/// merged, and a dense gradient stays dense and takes the rows in place.
void accumulate_sparse(VariableState& state, const Ref<SparseRows>& rows);

/// A (V, D) tensor of zeros with the rows added (Tensor.to_dense).
Tensor to_dense(const SparseRows& rows);

/// The gradient of `leaf` as events show it: whole, whether it lists rows or not.
Tensor whole_gradient(const Variable& leaf);

/// The gradients of some leaves, as events show them, without a handle to any: handles would make
/// gradients look shared to code that wants to reuse their memory.
class WholeGradients {
 public:
  /// This many leaves are going to be added.
  void reserve(std::size_t n) { list_.reserve(n); }

  /// Valid until the next clear(). Requires: the leaf keeps its gradient until then.
  void add(const Variable& leaf) {
    list_.push_back(leaf.state().sparse_grad ? make_dense(leaf) : &leaf.grad());
  }

  void clear() {
    list_.clear();
    made_.clear();
  }

  std::span<const Tensor* const> list() const { return list_; }

 private:
  const Tensor* make_dense(const Variable& leaf);

  std::vector<const Tensor*> list_;
  std::vector<std::unique_ptr<Tensor>> made_;  // Of those that list rows.
};

}  // namespace lockstep
