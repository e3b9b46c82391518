// The reducer's part of the join context: dividing by the active ranks, and shadowing a backward on
// a rank that has no inputs left.
#include <utility>

#include "lockstep/reducer/reducer.h"

namespace lockstep {

void Reducer::divide_by(const JoinNotice& active) { active_ranks_ = active; }

void Reducer::fix_divisor() { divisor_ = std::exchange(active_ranks_, {}).n_active(); }

std::unique_ptr<PendingBucket> Reducer::shadow_hook(std::size_t b, const Tensor& zeros) {
  const Bucket& bucket = buckets_[b];
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  std::int64_t offset = 0;
  for (const std::int32_t member : bucket.members) {
    parameters.push_back(leaves_[static_cast<std::size_t>(member)]);
    const Tensor& data = parameters.back().data();
    gradients.push_back(zeros.slice(offset, data.shape()));
    offset += data.n_elems();
  }
  GradBucket shown(b,
                   b + 1 == buckets_.size(),
                   zeros,
                   std::move(parameters),
                   std::move(gradients),
                   op_options("ddp.hook", bucket.layout));
  return hook_->run(shown);
}

void Reducer::shadow_backward() {
  std::vector<Tensor> zeros;
  std::vector<Work> works;
  std::vector<std::unique_ptr<PendingBucket>> pending;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_[b].is_sparse) {
      shadow_rows(buckets_[b]);
      continue;
    }
    const Tensor& flat = buckets_[b].flat;
    zeros.push_back(Tensor::zeros(*runtime_, flat.shape(), flat.dtype()));
    if (hook_ != nullptr) {
      pending.push_back(shadow_hook(b, zeros.back()));
      continue;
    }
    works.push_back(group_->all_reduce(
        Memory::of(zeros.back()), ReduceOp::kSum, op_options("ddp.backward", buckets_[b].layout)));
  }
  for (const Work& work : works) work.wait_or_throw();
  for (const std::unique_ptr<PendingBucket>& bucket : pending) static_cast<void>(bucket->wait());
  if (!options_.find_unused_parameters) return;
  // Not zeros but the counts of the last reduction: what PyTorch's joined ranks contribute (D67).
  group_
      ->all_reduce(
          Memory::of(std::span(global_used_)), ReduceOp::kSum, op_options("ddp.backward", 0))
      .wait_or_throw();
}

void Reducer::push_all_rebuilt_parameters() {
  if (!should_rebuild() || !ready_order_.empty()) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ready_order_.push_back(static_cast<std::int32_t>(i));
  }
}

}  // namespace lockstep
