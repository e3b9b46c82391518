#include "lockstep/functional/attention.h"

#include <array>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {
namespace {

// N matrices of one size inside a tensor. Packed: of each sequence's 3 * heads matrices those of
// one kind.
struct Matrices {
  Tensor tensor;
  std::int64_t heads = 1;  ///< Matrices that follow one another.
  std::int64_t pitch = 1;  ///< From the first of one run to the first of the next.
  std::int64_t first = 0;

  std::int64_t rows() const { return tensor.size(tensor.shape().n_dims() - 2); }

  std::int64_t columns() const { return tensor.size(tensor.shape().n_dims() - 1); }

  Tensor at(std::int64_t n) const {
    const std::int64_t index = n / heads * pitch + first + n % heads;
    return tensor.slice(index * rows() * columns(), {rows(), columns()});
  }
};

Matrices separate(const Tensor& tensor) { return {tensor, tensor.size(0), tensor.size(0), 0}; }

// kind 0: queries, 1: keys, 2: values of (B, 3 * heads, T, D).
Matrices packed(const Tensor& tensor, std::int64_t kind) {
  const std::int64_t heads = tensor.size(1) / 3;
  return {tensor, heads, 3 * heads, kind * heads};
}

struct Operands {
  Matrices q;
  Matrices k;
  Matrices v;
  std::int64_t n = 0;  ///< Heads over all sequences.
};

// What the forward keeps besides its operands.
struct Weights {
  Tensor probabilities;  ///< (N, T, S), after the softmax.
  Tensor dropped;        ///< The same times the mask; the same tensor without one.
};

double scale_of(const Operands& in) { return 1.0 / std::sqrt(static_cast<double>(in.q.columns())); }

Weights weigh(const Operands& in, const AttentionOptions& options) {
  const Tensor& q = in.q.tensor;
  Kernels& kernels = q.runtime().kernels();
  const Shape shape{in.n, in.q.rows(), in.k.rows()};
  const Matrices scores = separate(Tensor::empty(q.runtime(), shape, q.dtype()));
  for (std::int64_t n = 0; n < in.n; ++n) {
    kernels.gemm(scores.at(n), in.q.at(n), in.k.at(n), {.transpose_b = true});
  }
  kernels.scale(scores.tensor, scores.tensor, scale_of(in));
  Weights weights;
  weights.probabilities = Tensor::empty_like(scores.tensor);
  kernels.softmax(weights.probabilities, scores.tensor, {.causal = options.causal});
  weights.dropped = weights.probabilities;
  if (options.dropout_mask.defined()) {
    LOCKSTEP_CHECK(options.dropout_mask.n_elems() == scores.tensor.n_elems(),
                   fmt::format("attention's dropout mask {} does not fit the scores {}",
                               options.dropout_mask.text(),
                               scores.tensor.text()));
    weights.dropped = Tensor::empty_like(scores.tensor);
    kernels.mul(weights.dropped, weights.probabilities, options.dropout_mask.reshape(shape));
  }
  return weights;
}

void mix(const Matrices& out, const Operands& in, const Weights& weights) {
  const Matrices dropped = separate(weights.dropped);
  for (std::int64_t n = 0; n < in.n; ++n) {
    out.tensor.runtime().kernels().gemm(out.at(n), dropped.at(n), in.v.at(n), {});
  }
}

// `d` receives the gradients of the operands; `grad` is that of the mixed values.
void attention_backward(const Operands& d,
                        const Matrices& grad,
                        const Operands& in,
                        const Weights& weights,
                        const AttentionOptions& options) {
  Kernels& kernels = grad.tensor.runtime().kernels();
  const Matrices dropped = separate(weights.dropped);
  const Matrices d_weights = separate(Tensor::empty_like(weights.dropped));
  for (std::int64_t n = 0; n < in.n; ++n) {
    kernels.gemm(d.v.at(n), dropped.at(n), grad.at(n), {.transpose_a = true});
    kernels.gemm(d_weights.at(n), grad.at(n), in.v.at(n), {.transpose_b = true});
  }
  if (options.dropout_mask.defined()) {
    const Tensor mask = options.dropout_mask.reshape(d_weights.tensor.shape());
    kernels.mul(d_weights.tensor, d_weights.tensor, mask);
  }
  const Matrices d_scores = separate(Tensor::empty_like(d_weights.tensor));
  kernels.softmax_backward(
      d_scores.tensor, d_weights.tensor, weights.probabilities, {.causal = options.causal});
  kernels.scale(d_scores.tensor, d_scores.tensor, scale_of(in));
  for (std::int64_t n = 0; n < in.n; ++n) {
    kernels.gemm(d.q.at(n), d_scores.at(n), in.k.at(n), {});
    kernels.gemm(d.k.at(n), d_scores.at(n), in.q.at(n), {.transpose_a = true});
  }
}

// The weights of a forward and the options that made them.
class SavedWeights {
 public:
  SavedWeights(const Weights& weights, const AttentionOptions& options)
      : probabilities_(weights.probabilities), dropped_(weights.dropped), options_(options) {}

  Weights get() const { return {probabilities_.get(), dropped_.get()}; }

  const AttentionOptions& options() const { return options_; }

  void reset() {
    probabilities_.reset();
    dropped_.reset();
    options_.dropout_mask = Tensor();
  }

 private:
  SavedTensor probabilities_;
  SavedTensor dropped_;
  AttentionOptions options_;
};

class AttentionNode final : public Node {
 public:
  AttentionNode(const std::array<Tensor, 3>& qkv,
                const Weights& weights,
                const AttentionOptions& options)
      : q_(qkv[0]), k_(qkv[1]), v_(qkv[2]), weights_(weights, options) {}

  void run(Tensor&& grad) override {
    const Operands in{separate(q_.get()), separate(k_.get()), separate(v_.get()), grad.size(0)};
    std::array<Tensor, 3> grads{
        Tensor::empty_like(q_.get()), Tensor::empty_like(k_.get()), Tensor::empty_like(v_.get())};
    const Operands d{separate(grads[0]), separate(grads[1]), separate(grads[2]), in.n};
    attention_backward(d, separate(grad), in, weights_.get(), weights_.options());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (needs(i)) send(i, Tensor(grads[i]));
    }
  }

  void release_saved() override {
    for (SavedTensor* saved : {&q_, &k_, &v_}) saved->reset();
    weights_.reset();
  }

 private:
  SavedTensor q_;
  SavedTensor k_;
  SavedTensor v_;
  SavedWeights weights_;
};

Operands unpack(const Tensor& split) {
  return {packed(split, 0), packed(split, 1), packed(split, 2), split.size(0) * split.size(1) / 3};
}

class SelfAttentionNode final : public Node {
 public:
  SelfAttentionNode(const Tensor& split, const Weights& weights, const AttentionOptions& options)
      : split_(split), weights_(weights, options) {}

  void run(Tensor&& grad) override {
    const Tensor& split = split_.get();
    const std::int64_t batch = split.size(0);
    const std::int64_t heads = split.size(1) / 3;
    const std::int64_t length = split.size(2);
    const std::int64_t width = split.size(3);
    const Shape by_head{batch, heads, length, width};
    const Tensor swapped = Tensor::empty(runtime(), by_head, grad.dtype());
    kernels().swap_middle(swapped, grad.reshape({batch, length, heads, width}));
    const Tensor d_split = Tensor::empty_like(split);
    const Matrices heads_grad{swapped, heads, heads, 0};
    attention_backward(
        unpack(d_split), heads_grad, unpack(split), weights_.get(), weights_.options());
    const Tensor dx = Tensor::empty(runtime(), {batch, length, 3 * heads, width}, grad.dtype());
    kernels().swap_middle(dx, d_split);
    send(0, dx.reshape({batch * length, 3 * heads * width}));
  }

  void release_saved() override {
    split_.reset();
    weights_.reset();
  }

 private:
  SavedTensor split_;
  SavedWeights weights_;
};

void check_separate(const Shape& q, const Shape& k, const Shape& v, bool causal) {
  LOCKSTEP_CHECK(q.n_dims() == 3 && k.n_dims() == 3 && k == v && q[0] == k[0] && q[2] == k[2],
                 "attention takes q (N, T, D), k and v (N, S, D), not " + q.text() + ", " +
                     k.text() + ", " + v.text());
  LOCKSTEP_CHECK(
      !causal || q[1] == k[1],
      fmt::format("causal attention needs as many keys as queries, not {} and {}", k[1], q[1]));
}

void check_packed(const Shape& qkv, const HeadLayout& layout) {
  LOCKSTEP_CHECK(layout.batch > 0 && layout.heads > 0,
                 fmt::format("attention over {} sequences with {} heads: it needs one of each",
                             layout.batch,
                             layout.heads));
  LOCKSTEP_CHECK(
      qkv.n_dims() == 2 && qkv[0] % layout.batch == 0 && qkv[1] % (3 * layout.heads) == 0,
      fmt::format("self attention of {} sequences with {} heads takes (B * T, 3 * C) with C a "
                  "multiple of the heads, not {}",
                  layout.batch,
                  layout.heads,
                  qkv.text()));
}

/// The options of the same attention in f32.
AttentionOptions widened(const AttentionOptions& options) {
  AttentionOptions wide = options;
  if (wide.dropout_mask.defined()) wide.dropout_mask = wide.dropout_mask.to(DType::kF32);
  return wide;
}

Variable attend(const Variable& q,
                const Variable& k,
                const Variable& v,
                const AttentionOptions& options) {
  check_separate(q.shape(), k.shape(), v.shape(), options.causal);
  const Operands in{separate(q.data()), separate(k.data()), separate(v.data()), q.shape()[0]};
  const Weights weights = weigh(in, options);
  Tensor out = Tensor::empty_like(q.data());
  mix(separate(out), in, weights);
  if (!Node::records({&q, &k, &v})) return Node::attach(std::move(out), {});
  const std::array qkv{q.data(), k.data(), v.data()};
  const auto node = Node::make<AttentionNode>(q.runtime(), qkv, weights, options);
  node->connect(0, q);
  node->connect(1, k);
  node->connect(2, v);
  return Node::attach(std::move(out), node);
}

Variable attend_packed(const Variable& qkv,
                       const HeadLayout& layout,
                       const AttentionOptions& options) {
  check_packed(qkv.shape(), layout);
  Runtime& runtime = qkv.runtime();
  const DType dtype = qkv.data().dtype();
  const auto [batch, heads] = layout;
  const std::int64_t length = qkv.shape()[0] / batch;
  const std::int64_t width = qkv.shape()[1] / (3 * heads);
  const Tensor split = Tensor::empty(runtime, {batch, 3 * heads, length, width}, dtype);
  runtime.kernels().swap_middle(split, qkv.data().reshape({batch, length, 3 * heads, width}));
  const Operands in = unpack(split);
  const Weights weights = weigh(in, options);
  const Tensor mixed = Tensor::empty(runtime, {batch, heads, length, width}, dtype);
  mix({mixed, heads, heads, 0}, in, weights);
  const Tensor joined = Tensor::empty(runtime, {batch, length, heads, width}, dtype);
  runtime.kernels().swap_middle(joined, mixed);
  Tensor out = joined.reshape({batch * length, heads * width});
  if (!Node::records({&qkv})) return Node::attach(std::move(out), {});
  const auto node = Node::make<SelfAttentionNode>(runtime, split, weights, options);
  node->connect(0, qkv);
  return Node::attach(std::move(out), node);
}

/// PyTorch's math path in 16 bits: f32 throughout, one rounding.
Variable attend_wide(const Variable& q,
                     const Variable& k,
                     const Variable& v,
                     const AttentionOptions& options) {
  const DType dtype = q.data().dtype();
  if (!is_narrow(dtype)) return attend(q, k, v, options);
  const std::array wide{cast(q, DType::kF32), cast(k, DType::kF32), cast(v, DType::kF32)};
  return cast(attend(wide[0], wide[1], wide[2], widened(options)), dtype);
}

}  // namespace

Variable attention(const Variable& q,
                   const Variable& k,
                   const Variable& v,
                   const AttentionOptions& options) {
  if (!detail::autocasts(q)) return attend_wide(q, k, v, options);
  const Variable low_v = detail::lowered(v);
  const Variable low_k = detail::lowered(k);
  return attend_wide(detail::lowered(q), low_k, low_v, options);
}

Variable self_attention(const Variable& qkv,
                        const HeadLayout& layout,
                        const AttentionOptions& options) {
  const Variable in = detail::autocasts(qkv) ? detail::lowered(qkv) : qkv;
  const DType dtype = in.data().dtype();
  if (!is_narrow(dtype)) return attend_packed(in, layout, options);
  return cast(attend_packed(cast(in, DType::kF32), layout, widened(options)), dtype);
}

}  // namespace lockstep
