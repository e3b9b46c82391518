#include "lockstep/functional/layer_functions.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/detail/record_unary.h"

namespace lockstep {
namespace {

class SoftmaxNode final : public Node {
 public:
  SoftmaxNode(const Tensor& y, const Kernels::Softmax& options) : y_(y), options_(options) {}

  void run(Tensor&& grad) override {
    Tensor out = Tensor::empty_like(grad);
    kernels().softmax_backward(out, grad, y_.get(), options_);
    send(0, std::move(out));
  }

  void release_saved() override { y_.reset(); }

 private:
  SavedTensor y_;
  Kernels::Softmax options_;
};

class GeluNode final : public Node {
 public:
  GeluNode(const Tensor& x, Kernels::Gelu form) : x_(x), form_(form) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().gelu_backward(out, grad, x_.get(), form_);
    send(0, std::move(out));
  }

  void release_saved() override { x_.reset(); }

 private:
  SavedTensor x_;
  Kernels::Gelu form_;
};

class LayerNormNode final : public Node {
 public:
  LayerNormNode(const Variable& x, const Variable& weight, std::span<const Tensor> statistics)
      : x_(x.data()), weight_(weight.data()), mean_(statistics[0]), invstd_(statistics[1]) {}

  void run(Tensor&& grad) override {
    const Tensor& weight = weight_.get();
    std::array grads{Tensor::empty_like(grad),
                     Tensor::empty(runtime(), weight.shape(), grad.dtype()),
                     Tensor::empty(runtime(), weight.shape(), grad.dtype())};
    const std::array in{grad, x_.get(), weight};
    const std::array saved{mean_.get(), invstd_.get()};
    kernels().layer_norm_backward(grads, in, saved);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (needs(i)) send(i, i == 0 ? std::move(grads[i]) : grads[i].to(weight.dtype()));
    }
  }

  void release_saved() override {
    for (SavedTensor* saved : {&x_, &weight_, &mean_, &invstd_}) saved->reset();
  }

 private:
  SavedTensor x_;
  SavedTensor weight_;
  SavedTensor mean_;
  SavedTensor invstd_;
};

class EmbeddingNode final : public Node {
 public:
  EmbeddingNode(const Shape& table, const Tensor& indices, std::int64_t padding)
      : table_(table), indices_(indices), padding_(padding) {}

  void run(Tensor&& grad) override {
    Tensor out = Tensor::zeros(runtime(), table_, grad.dtype());
    kernels().scatter_add_rows(out, grad, indices_.get(), padding_);
    send(0, std::move(out));
  }

  void release_saved() override { indices_.reset(); }

 private:
  Shape table_;
  SavedTensor indices_;
  std::int64_t padding_;
};

/// Sends the rows of the gradient as they are, but for those of the padding.
class SparseEmbeddingNode final : public Node {
 public:
  SparseEmbeddingNode(const Shape& table, const Tensor& indices, std::int64_t padding)
      : table_(table), indices_(indices), padding_(padding) {}

  void run(Tensor&& grad) override {
    const Tensor& indices = indices_.get();
    if (padding_ < 0) {
      send_sparse(0, SparseRows::make(indices, std::move(grad), table_[0]));
      return;
    }
    std::vector<std::int64_t> kept;
    for (std::int64_t i = 0; i < indices.n_elems(); ++i) {
      if (indices.read<std::int64_t>()[i] != padding_) kept.push_back(i);
    }
    const Shape length{static_cast<std::int64_t>(kept.size())};
    const Tensor rows = Tensor::empty(runtime(), length, DType::kI64);
    const Tensor places = Tensor::empty(runtime(), length, DType::kI64);
    std::copy(kept.begin(), kept.end(), places.write<std::int64_t>());
    for (std::size_t k = 0; k < kept.size(); ++k) {
      rows.write<std::int64_t>()[k] = indices.read<std::int64_t>()[kept[k]];
    }
    const Tensor values = Tensor::empty(runtime(), {length[0], table_[1]}, grad.dtype());
    kernels().gather_rows(values, grad, places);
    send_sparse(0, SparseRows::make(rows, values, table_[0]));
  }

  void release_saved() override { indices_.reset(); }

 private:
  Shape table_;
  SavedTensor indices_;
  std::int64_t padding_;
};

}  // namespace

Variable softmax(const Variable& x, const Kernels::Softmax& options) {
  Tensor out = Tensor::empty_like(x.data());
  x.runtime().kernels().softmax(out, x.data(), options);
  const Tensor y = out;
  return detail::record_unary<SoftmaxNode>(std::move(out), x, y, options);
}

Variable log_softmax(const Variable& x) { return softmax(x, {.log = true}); }

Variable gelu(const Variable& x, Kernels::Gelu form) {
  Tensor out = Tensor::empty_like(x.data());
  x.runtime().kernels().gelu(out, x.data(), form);
  return detail::record_unary<GeluNode>(std::move(out), x, x.data(), form);
}

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  LOCKSTEP_CHECK(x.shape().n_dims() == 2, "layer norm takes (R, D), not " + x.shape().text());
  LOCKSTEP_CHECK(weight.shape() == Shape({x.shape()[1]}) && bias.shape() == weight.shape(),
                 fmt::format("layer norm needs one weight and bias per column of {}, not {} and {}",
                             x.shape().text(),
                             weight.shape().text(),
                             bias.shape().text()));
  detail::check_norm_dtypes(x, weight.data());
  Runtime& runtime = x.runtime();
  Tensor out = Tensor::empty_like(x.data());
  const Shape rows{x.shape()[0]};
  const std::array in{x.data(), weight.data(), bias.data()};
  const std::array statistics{Tensor::empty(runtime, rows, weight.data().dtype()),
                              Tensor::empty(runtime, rows, weight.data().dtype())};
  runtime.kernels().layer_norm(out, in, statistics, eps);
  if (!Node::records({&x, &weight, &bias})) return Node::attach(std::move(out), {});
  const auto node = Node::make<LayerNormNode>(runtime, x, weight, statistics);
  node->connect(0, x);
  node->connect(1, weight);
  node->connect(2, bias);
  return Node::attach(std::move(out), node);
}

Variable embedding(const Variable& table,
                   const Tensor& indices,
                   std::int64_t padding,
                   bool sparse) {
  LOCKSTEP_CHECK(table.shape().n_dims() == 2 && indices.shape().n_dims() == 1,
                 fmt::format("an embedding takes a table (V, D) and indices (R,), not {} and {}",
                             table.shape().text(),
                             indices.shape().text()));
  const Shape shape{indices.n_elems(), table.shape()[1]};
  Tensor out = Tensor::empty(table.runtime(), shape, table.data().dtype());
  table.runtime().kernels().gather_rows(out, table.data(), indices);
  if (sparse && Node::records({&table})) {
    LOCKSTEP_CHECK(
        table.is_leaf(),
        fmt::format("the table {} of a sparse embedding is not a leaf", table.shape().text()));
    const auto& rows = table.shape();
    return detail::record_unary<SparseEmbeddingNode>(std::move(out), table, rows, indices, padding);
  }
  return detail::record_unary<EmbeddingNode>(
      std::move(out), table, table.shape(), indices, padding);
}

}  // namespace lockstep
