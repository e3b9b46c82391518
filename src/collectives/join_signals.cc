#include "lockstep/collectives/join_signals.h"

#include <stdexcept>

namespace lockstep {

void JoinSignals::settle() {
  for (const JoinNotice& notice : pending_) static_cast<void>(notice.n_active());
  pending_.clear();
}

JoinNotice JoinSignals::post(double value, const OpOptions& options) const {
  Tensor flag = Tensor::full(group_->runtime(), {1}, DType::kF32, value);
  Work work = group_->all_reduce(Memory::of(flag), ReduceOp::kSum, options);
  return {std::move(work), std::move(flag)};
}

std::int32_t JoinSignals::common_rank(bool is_candidate, const OpOptions& options) const {
  const double own = is_candidate ? static_cast<double>(group_->rank()) : -1.0;
  const Tensor rank = Tensor::full(group_->runtime(), {1}, DType::kI64, own);
  group_->all_reduce(Memory::of(rank), ReduceOp::kMax, options).wait_or_throw();
  const std::int64_t largest = *rank.read<std::int64_t>();
  if (largest < 0) {
    throw std::invalid_argument(
        "BUG! Expected rank_cond to be true for at least one process. This indicates a bug in "
        "PyTorch, please report an issue.");
  }
  return static_cast<std::int32_t>(largest);
}

void JoinSignals::announce_sync(bool will_sync, const OpOptions& options) {
  pending_.push_back(post(will_sync ? 1.0 : 0.0, options));
}

bool JoinSignals::any_rank_syncs(const OpOptions& options) const {
  return post(0.0, options).n_active() != 0.0;
}

}  // namespace lockstep
