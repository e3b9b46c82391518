// ZeRO stage 1: the state of an optimizer, divided among ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/join.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/zero_partition.h"

namespace lockstep {

/// PyTorch's arguments, by their names.
struct ZeroOptions {
  /// Parameters become views of one flat tensor a rank, which is broadcast whole; otherwise each
  /// parameter is broadcast alone.
  bool parameters_as_bucket_view = false;
  CallSite site = CallSite::here();
};

/// An optimizer of which each rank keeps the state of its share of the parameters alone. A rank
/// updates its share, then every share is broadcast: bit-equal to the undivided optimizer, given
/// equal gradients.
///
///   ZeroRedundancyOptimizer optimizer(
///       model.parameters(),
///       [](auto groups) { return std::make_unique<optim::Adam>(std::move(groups), options); },
///       group);
///
/// step(): [join notice]  B(each parameter of rank 0) ... B(each of rank N-1), group by group in
/// the order of assignment; as bucket views B(bucket of rank 0) ... B(bucket of rank N-1), where a
/// rank that owns nothing sends one zero. Parameters that need no gradient are in no bucket.
///
/// Under a join context a rank without inputs continues to step with its last gradients, as
/// PyTorch's does; list Ddp first, whose final state it then takes. A context whose first joinable
/// is this one breaks when a rank runs out: its shadowed step announces itself as active (D76).
///
/// Requires: equal parameters on every rank; the process group outlives the optimizer.
/// Errors: std::invalid_argument with PyTorch's text for an empty list or mixed dtypes; CommError.
/// Source: torch.distributed.optim.ZeroRedundancyOptimizer (without overlap_with_ddp); Rajbhandari
///     et al., SC 2020.
class ZeroRedundancyOptimizer final : public optim::Optimizer, public Joinable {
 public:
  /// Builds the optimizer of one rank's share; groups may be empty.
  using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<optim::ParamGroup>)>;

  ZeroRedundancyOptimizer(const std::vector<optim::ParamGroup>& groups,
                          Make make,
                          ProcessGroup& group,
                          ZeroOptions options = {});

  ZeroRedundancyOptimizer(std::vector<Variable> parameters,
                          Make make,
                          ProcessGroup& group,
                          ZeroOptions options = {})
      : ZeroRedundancyOptimizer(one_group(std::move(parameters)), std::move(make), group, options) {
  }

  const ZeroPartition& partition() const { return partition_; }

  /// This rank's own optimizer, null if its share is empty.
  const optim::Optimizer* local() const { return local_.get(); }

  /// Deals out the new group; earlier parameters stay where they are.
  void add_param_group(optim::ParamGroup group) override;

  /// Collects the state of all shares on group rank `to`. Collective: for each other rank in order
  /// B i64[1], B u8[its bytes].
  void consolidate_state_dict(std::int32_t to = 0);
  /// The state as the undivided optimizer would have it, as of the last consolidation.
  /// Errors: std::runtime_error with PyTorch's text if none came to this rank.
  optim::OptimizerState state_dict() const override;
  /// Takes this rank's share out of a whole state, and its options.
  /// Requires: the same parameters in the same order and groups.
  void load_state_dict(const optim::OptimizerState& whole) override;

  std::unique_ptr<JoinHook> join_hook(const JoinOptions& options) override;

  ProcessGroup& join_process_group() const override { return *group_; }

 private:
  optim::OptimizerInfo info() const override { return {.kind = "zero"}; }

  void update_all() override;

  void update(std::size_t /*i*/, const optim::Group& /*group*/) override {}

  OpOptions op_options(const char* scope) const;
  void divide();
  std::vector<optim::ParamGroup> share_of_groups() const;
  std::vector<std::size_t> share_of(std::int32_t rank) const;
  void rebuild_if_thawed();
  void build_buckets();
  void step_share();
  void broadcast_shares();
  std::string encoded_share() const;
  void merge_share(std::int32_t rank, const std::string& bytes);
  optim::StateList& whole_list(const std::string& name, bool is_count);

  Make make_;
  ProcessGroup* group_;
  ZeroOptions options_;
  ZeroPartition partition_;
  std::unique_ptr<optim::Optimizer> local_;
  std::vector<bool> trainable_;  // By parameter, when the buckets were built.
  std::vector<Tensor> buckets_;  // By rank.
  std::vector<optim::StateList> whole_state_;
  bool is_consolidated_ = false;
};

}  // namespace lockstep
