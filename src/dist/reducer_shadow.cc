// The reducer's part of the join context: dividing by the active ranks, and shadowing a backward on
// a rank that has no inputs left.
#include <utility>

#include "lockstep/dist/reducer.h"

namespace lockstep {

void Reducer::divide_by(const JoinNotice& active) { active_ranks_ = active; }

void Reducer::fix_divisor() { divisor_ = std::exchange(active_ranks_, {}).n_active(); }

void Reducer::shadow_backward() {
  std::vector<Tensor> zeros;
  std::vector<Work> works;
  for (const Bucket& bucket : buckets_) {
    zeros.push_back(Tensor::zeros(*runtime_, bucket.flat.shape(), bucket.flat.dtype()));
    works.push_back(group_->all_reduce(
        Memory::of(zeros.back()), ReduceOp::kSum, op_options("ddp.backward", bucket.layout)));
  }
  for (const Work& work : works) work.wait_or_throw();
  if (!options_.find_unused_parameters) return;
  // Not zeros but the counts of the last reduction: what PyTorch's joined ranks contribute (D70).
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
