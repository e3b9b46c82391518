#include "lockstep/collectives/join.h"

#include <string>

#include "lockstep/base/host.h"

namespace lockstep {

namespace {

constexpr std::int64_t kSkewToWarnOf = 1000;

JoinNotice post_count(ProcessGroup& group, double value, const OpOptions& options) {
  Tensor count = Tensor::full(group.runtime(), {1}, DType::kF32, value);
  Work work = group.all_reduce(Memory::of(count), ReduceOp::kSum, options);
  return {std::move(work), std::move(count)};
}

}  // namespace

void Joinable::settle_notice() {
  if (last_notice_.valid()) static_cast<void>(std::exchange(last_notice_, {}).n_active());
}

JoinNotice Joinable::notify_join_context(const OpOptions& options) {
  settle_notice();
  if (!join_config_.enable || !join_config_.is_first_joinable) return {};
  ProcessGroup& group = join_process_group();
  last_notice_ = post_count(group, 1.0, options);
  if (!join_config_.throw_on_early_termination) return last_notice_;
  if (post_count(group, 0.0, options).n_active() == 0.0) return last_notice_;
  settle_notice();
  throw JoinError("Detected at least one rank that exhausted inputs. Throwing across all ranks.");
}

Join::Join(std::vector<Joinable*> joinables, JoinOptions options)
    : options_(options), joinables_(std::move(joinables)) {
  if (joinables_.empty()) {
    throw std::invalid_argument("The join context manager requires at least one joinable");
  }
  for (Joinable* joinable : joinables_) hooks_.push_back(joinable->join_hook(options_));
  for (Joinable* joinable : joinables_) {
    joinable->join_config_ = {.enable = options_.enable,
                              .throw_on_early_termination = options_.throw_on_early_termination,
                              .is_first_joinable = joinable == joinables_.front()};
  }
  group_ = &joinables_.front()->join_process_group();
  for (const Joinable* joinable : joinables_) {
    if (&joinable->join_process_group() != group_) {
      throw std::invalid_argument("Using join context manager with multiple process groups");
    }
  }
}

OpOptions Join::op_options() const {
  OpOptions options;
  options.site = options_.site;
  options.site.scope = "join";
  return options;
}

bool Join::any_rank_active() const {
  return post_count(*group_, 0.0, op_options()).n_active() != 0.0;
}

void Join::terminate() const {
  static_cast<void>(post_count(*group_, 1.0, op_options()).n_active());
  throw JoinError("Rank " + std::to_string(group_->rank()) + " exhausted all inputs.");
}

void Join::warn_of_skew() const {
  const std::string skew = std::to_string(kSkewToWarnOf);
  group_->runtime().host().log(
      "Detected uneven input skew of greater than " + skew + ". This means that rank " +
      std::to_string(group_->rank()) + " has at least " + skew +
      " fewer inputs than other currently-active ranks. This level of skew could lead to "
      "performance degradation during training.");
}

void Join::finish() {
  if (!options_.enable) return;
  for (Joinable* joinable : joinables_) joinable->settle_notice();
  std::int64_t n_shadowed = 0;
  while (true) {
    if (n_shadowed == kSkewToWarnOf + 1) warn_of_skew();
    if (!any_rank_active()) break;
    if (options_.throw_on_early_termination) terminate();
    for (const std::unique_ptr<JoinHook>& hook : hooks_) hook->main_hook();
    ++n_shadowed;
  }
  for (const std::unique_ptr<JoinHook>& hook : hooks_) hook->post_hook(n_shadowed == 0);
}

}  // namespace lockstep
