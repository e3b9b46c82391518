#include <array>
#include <cstring>
#include <fmt/core.h>
#include <stdexcept>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

OpOptions op_options(const Runtime& runtime, const char* scope) {
  OpOptions options;
  options.site = runtime.call_site_or(CallSite::here());
  options.site.scope = scope;
  return options;
}

Tensor data_or_nothing(const Variable& variable) {
  return variable.defined() ? variable.data() : Tensor();
}

std::int64_t count_of(const Shape& x) { return x[1] == 0 ? 0 : x.n_elems() / x[1]; }

/// What normalised x: the merged statistics and then the number of elements per channel.
struct Statistics {
  std::array<Tensor, 2> mean_invstd;
  double count = 0.0;
};

/// This rank's {mean, invstd, count}, zeros for an empty batch.
Tensor local_row(const Tensor& x, double eps) {
  const std::int64_t channels = x.size(1);
  Tensor row = Tensor::zeros(x.runtime(), {2 * channels + 1}, x.dtype());
  if (x.n_elems() == 0) return row;
  const std::array parts{row.slice(0, {channels}), row.slice(channels, {channels})};
  Kernels& kernels = x.runtime().kernels();
  kernels.batch_norm_stats(parts, x, eps);
  kernels.fill(row.slice(2 * channels, {1}), static_cast<double>(count_of(x.shape())));
  return row;
}

Statistics gather_statistics(const Tensor& x,
                             const BatchNormBuffers& buffers,
                             const Kernels::BatchNorm& options,
                             ProcessGroup& group) {
  Runtime& runtime = x.runtime();
  const std::int64_t channels = x.size(1);
  const Tensor own = local_row(x, options.eps);
  const Tensor rows = Tensor::empty(runtime, {group.size(), own.n_elems()}, x.dtype());
  std::vector<Memory> outputs;
  outputs.reserve(static_cast<std::size_t>(group.size()));
  for (std::int32_t r = 0; r < group.size(); ++r) outputs.push_back(Memory::of(rows.rows(r, 1)));
  group.all_gather(outputs, Memory::of(own), op_options(runtime, "sync_batch_norm.forward"))
      .wait_or_throw();

  Statistics statistics{.mean_invstd = {Tensor::empty(runtime, {channels}, x.dtype()),
                                        Tensor::empty(runtime, {channels}, x.dtype())}};
  for (std::int32_t r = 0; r < group.size(); ++r) {
    statistics.count += rows.at((r + 1) * own.n_elems() - 1);
  }
  const std::array running{buffers.running_mean, buffers.running_var};
  runtime.kernels().batch_norm_merge_stats(statistics.mean_invstd, running, rows, options);
  return statistics;
}

class SyncBatchNormNode final : public Node {
 public:
  SyncBatchNormNode(const Variable& x,
                    const Variable& weight,
                    const Statistics& statistics,
                    ProcessGroup& group)
      : x_(x.data()),
        has_weight_(weight.defined()),
        mean_(statistics.mean_invstd[0]),
        invstd_(statistics.mean_invstd[1]),
        count_(statistics.count),
        group_(&group) {
    if (has_weight_) weight_ = SavedTensor(weight.data());
  }

  void run(Tensor&& given) override {
    const Tensor& x = x_.get();
    // Undefined where a later layer's batch was empty: the other ranks still wait.
    const Tensor grad =
        given.defined() ? Tensor(std::move(given)) : Tensor::zeros(runtime(), x.shape(), x.dtype());
    const std::int64_t channels = x.size(1);
    const std::array saved{mean_.get(), invstd_.get()};
    const std::array own_grads{Tensor::empty(runtime(), {channels}, x.dtype()),
                               Tensor::empty(runtime(), {channels}, x.dtype())};
    const Tensor sums = Tensor::zeros(runtime(), {2 * channels}, x.dtype());
    const bool is_empty = x.n_elems() == 0;
    const std::array grad_x{grad, x};
    if (!is_empty) kernels().batch_norm_sums(sums, own_grads, grad_x, saved);
    if (needs(kX)) {
      group_
          ->all_reduce(
              Memory::of(sums), ReduceOp::kSum, op_options(runtime(), "sync_batch_norm.backward"))
          .wait_or_throw();
      if (!is_empty) send(kX, input_gradient(grad, saved, sums));
    }
    // An empty batch has nothing to say: undefined gradients, as in PyTorch.
    if (is_empty) return;
    if (needs(kWeight)) send(kWeight, Tensor(own_grads[0]));
    if (needs(kBias)) send(kBias, Tensor(own_grads[1]));
  }

  bool runs_undefined() const override { return true; }

  void release_saved() override {
    for (SavedTensor* saved : {&x_, &weight_, &mean_, &invstd_}) saved->reset();
  }

 private:
  Tensor input_gradient(const Tensor& grad,
                        std::span<const Tensor> saved,
                        const Tensor& sums) const {
    Tensor out = Tensor::empty(runtime(), grad.shape(), grad.dtype());
    const std::array in{grad, x_.get(), has_weight_ ? weight_.get() : Tensor()};
    kernels().batch_norm_spread(out, in, saved, sums, count_);
    return out;
  }

  SavedTensor x_;
  SavedTensor weight_;
  bool has_weight_;
  SavedTensor mean_;
  SavedTensor invstd_;
  double count_;
  ProcessGroup* group_;
};

void check_input(const Shape& x, const Variable& weight, const Variable& bias) {
  if (x.n_dims() < 2) {
    throw std::invalid_argument("expected at least 2D input (got " + std::to_string(x.n_dims()) +
                                "D input)");
  }
  if (x[1] == 0) {
    throw std::invalid_argument("SyncBatchNorm number of input channels should be non-zero");
  }
  for (const Variable* of_channel : {&weight, &bias}) {
    LOCKSTEP_CHECK(
        !of_channel->defined() || of_channel->shape() == Shape({x[1]}),
        fmt::format("synchronised batch norm needs one weight and bias per channel of {}, not {}",
                    x.text(),
                    of_channel->shape().text()));
  }
}

}  // namespace

// The arguments are torch.batch_norm's, and the group.
Variable sync_batch_norm(  // NOLINT(readability-function-size)
    const Variable& x,
    const Variable& weight,
    const Variable& bias,
    const BatchNormBuffers& buffers,
    const Kernels::BatchNorm& options,
    ProcessGroup& group) {
  check_input(x.shape(), weight, bias);
  if (count_of(x.shape()) == 1 && group.size() < 2) {
    throw std::invalid_argument(
        "Expected more than 1 value per channel when training, got input size 1");
  }
  const Statistics statistics = gather_statistics(x.data(), buffers, options, group);
  Tensor out = Tensor::empty(x.runtime(), x.shape(), x.data().dtype());
  if (out.n_elems() > 0) {
    const std::array in{x.data(), data_or_nothing(weight), data_or_nothing(bias)};
    x.runtime().kernels().batch_norm_apply(out, in, statistics.mean_invstd);
  }
  const Variable& some_weight = weight.defined() ? weight : x;
  const Variable& some_bias = bias.defined() ? bias : x;
  if (!Node::records({&x, &some_weight, &some_bias})) return Node::attach(std::move(out), {});

  Ref<Node> node = Node::make<SyncBatchNormNode>(x.runtime(), x, weight, statistics, group);
  node->connect(kX, x);
  if (weight.defined()) node->connect(kWeight, weight);
  if (bias.defined()) node->connect(kBias, bias);
  return Node::attach(std::move(out), std::move(node));
}

}  // namespace lockstep
