#include "lockstep/functional/pieces.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <span>
#include <utility>

#include "lockstep/autograd/node.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/detail/record_unary.h"
#include "lockstep/functional/functions.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {
namespace {

/// `n` positions of dimension `dim` of a tensor, from `first` on.
struct Piece {
  std::size_t dim = 0;
  std::int64_t first = 0;
  std::int64_t n = 0;
};

Shape with_size(const Shape& shape, std::size_t dim, std::int64_t n) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < shape.n_dims(); ++i) sizes.push_back(i == dim ? n : shape[i]);
  return Shape(sizes);
}

/// How many elements lie between one position of a dimension and the next.
std::int64_t stride_of(const Shape& shape, std::size_t dim) {
  std::int64_t stride = 1;
  for (std::size_t i = dim + 1; i < shape.n_dims(); ++i) stride *= shape[i];
  return stride;
}

/// Calls `act(run of whole, run of part)` for each run of elements that lies together in both.
template <typename Act>
void each_run(const Tensor& whole, const Tensor& part, const Piece& piece, Act act) {
  if (part.n_elems() == 0) return;
  const std::int64_t stride = stride_of(whole.shape(), piece.dim);
  const std::int64_t length = piece.n * stride;
  const std::int64_t row = whole.size(piece.dim) * stride;
  for (std::int64_t i = 0; i < part.n_elems() / length; ++i) {
    act(whole.slice(i * row + piece.first * stride, {length}), part.slice(i * length, {length}));
  }
}

/// A copy of that piece of `whole`.
Tensor copied(const Tensor& whole, const Piece& piece) {
  Tensor part =
      Tensor::empty(whole.runtime(), with_size(whole.shape(), piece.dim, piece.n), whole.dtype());
  Kernels& kernels = whole.runtime().kernels();
  each_run(
      whole, part, piece, [&](const Tensor& from, const Tensor& to) { kernels.copy(to, from); });
  return part;
}

void put(const Tensor& whole, const Tensor& part, const Piece& piece) {
  Kernels& kernels = whole.runtime().kernels();
  each_run(
      whole, part, piece, [&](const Tensor& to, const Tensor& from) { kernels.copy(to, from); });
}

/// What the first two of some parts and the rest of them get of the whole's gradient. The rest is a
/// node of its own: a node has three edges.
class CatNode final : public Node {
 public:
  explicit CatNode(std::size_t dim) : dim_(dim) {}

  /// Requires: at least one part.
  static Ref<CatNode> of(std::span<const Variable> parts, std::size_t dim) {
    Runtime& runtime = parts.front().runtime();
    Ref<CatNode> rest;
    // The last first, so that the node of the first parts is the youngest and runs first.
    for (std::size_t first = (parts.size() - 1) / 2 * 2;; first -= 2) {
      Ref<CatNode> node = Node::make<CatNode>(runtime, dim);
      if (rest) node->connect(kRest, *rest);
      if (first != 0) node->take_sequence_number();
      node->take_over(parts.subspan(first, std::min<std::size_t>(2, parts.size() - first)));
      rest = std::move(node);
      if (first == 0) return rest;
    }
  }

  void run(Tensor&& grad) override {
    Piece piece{dim_, 0, 0};
    for (std::size_t i = 0; i < n_own_; ++i) {
      piece = {dim_, piece.first + piece.n, sizes_[i]};
      if (needs(i)) send(i, copied(grad, piece));
    }
    if (!needs(kRest)) return;
    const std::int64_t first = piece.first + piece.n;
    send(kRest, copied(grad, {dim_, first, grad.size(dim_) - first}));
  }

 private:
  static constexpr std::size_t kRest = 2;

  void take_over(std::span<const Variable> parts) {
    n_own_ = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      connect(i, parts[i]);
      sizes_[i] = parts[i].shape()[dim_];
    }
  }

  std::size_t dim_;
  std::size_t n_own_ = 0;
  std::array<std::int64_t, kRest> sizes_{};
};

class SliceNode final : public Node {
 public:
  SliceNode(const Shape& whole, const Piece& piece) : whole_(whole), piece_(piece) {}

  void run(Tensor&& grad) override {
    Tensor out = Tensor::zeros(runtime(), whole_, grad.dtype());
    put(out, grad, piece_);
    send(0, std::move(out));
  }

 private:
  Shape whole_;
  Piece piece_;
};

class CloneNode final : public Node {
 public:
  void run(Tensor&& grad) override { send(0, std::move(grad)); }
};

std::string shapes_text(const std::vector<Variable>& parts) {
  std::string text;
  for (const Variable& part : parts) text += (text.empty() ? "" : ", ") + part.shape().text();
  return text;
}

void check_parts(const std::vector<Variable>& parts, std::size_t dim) {
  LOCKSTEP_CHECK(!parts.empty(), "cat needs at least one variable");
  const Shape& first = parts.front().shape();
  LOCKSTEP_CHECK(
      dim < first.n_dims(),
      fmt::format("cat along dimension {} of {}: dimensions count from 0", dim, first.text()));
  const bool fit = std::ranges::all_of(parts, [&](const Variable& part) {
    return part.shape().n_dims() == first.n_dims() &&
           with_size(part.shape(), dim, first[dim]) == first;
  });
  LOCKSTEP_CHECK(fit,
                 fmt::format("cat along dimension {} takes shapes that differ there alone, not {}",
                             dim,
                             shapes_text(parts)));
}

/// The dtype that PyTorch promotes them to.
DType common_dtype(const std::vector<Variable>& parts) {
  DType dtype = parts.front().data().dtype();
  for (const Variable& part : parts) {
    const DType other = part.data().dtype();
    if (other == dtype) continue;
    LOCKSTEP_CHECK(is_floating(dtype) && is_floating(other),
                   fmt::format("cat takes one dtype, or floating ones alone, not {} and {}",
                               name_of(dtype),
                               name_of(other)));
    dtype = detail::promoted(dtype, other);
  }
  return dtype;
}

}  // namespace

Variable cat(const std::vector<Variable>& parts, std::size_t dim) {
  check_parts(parts, dim);
  const DType dtype = common_dtype(parts);
  std::vector<Variable> same;
  same.reserve(parts.size());
  std::int64_t n = 0;
  for (const Variable& part : parts) {
    same.push_back(part.data().dtype() == dtype ? part : cast(part, dtype));
    n += part.shape()[dim];
  }
  Runtime& runtime = parts.front().runtime();
  Tensor out = Tensor::empty(runtime, with_size(parts.front().shape(), dim, n), dtype);
  Piece piece{dim, 0, 0};
  for (const Variable& part : same) {
    piece = {dim, piece.first + piece.n, part.shape()[dim]};
    put(out, part.data(), piece);
  }
  const bool records =
      std::ranges::any_of(same, [](const Variable& part) { return Node::records({&part}); });
  return Node::attach(std::move(out), records ? Ref<Node>(CatNode::of(same, dim)) : Ref<Node>());
}

Variable stack(const std::vector<Variable>& parts, std::size_t dim) {
  std::vector<Variable> rows;
  rows.reserve(parts.size());
  for (const Variable& part : parts) {
    const Shape& shape = part.shape();
    LOCKSTEP_CHECK(dim <= shape.n_dims(),
                   fmt::format("stack along dimension {} of {}: the result has one more dimension",
                               dim,
                               shape.text()));
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i <= shape.n_dims(); ++i) {
      if (i == dim) sizes.push_back(1);
      if (i < shape.n_dims()) sizes.push_back(shape[i]);
    }
    rows.push_back(reshape(part, Shape(sizes)));
  }
  return cat(rows, dim);
}

Variable slice(const Variable& x, std::size_t dim, std::int64_t first, std::int64_t n) {
  const Shape& shape = x.shape();
  LOCKSTEP_CHECK(
      dim < shape.n_dims(),
      fmt::format("slice along dimension {} of {}: dimensions count from 0", dim, shape.text()));
  LOCKSTEP_CHECK(first >= 0 && n >= 0 && first <= shape[dim] && n <= shape[dim] - first,
                 fmt::format("slice takes {} positions from {} on along dimension {} of {}",
                             n,
                             first,
                             dim,
                             shape.text()));
  const Piece piece{dim, first, n};
  // Rows lie together.
  Tensor out = dim == 0 ? x.data().rows(first, n) : copied(x.data(), piece);
  return detail::record_unary<SliceNode>(std::move(out), x, shape, piece);
}

Variable clone(const Variable& x) { return detail::record_unary<CloneNode>(x.data().clone(), x); }

}  // namespace lockstep
