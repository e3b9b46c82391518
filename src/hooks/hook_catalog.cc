#include "lockstep/hooks/hook_catalog.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "lockstep/collectives/new_group.h"
#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/post_local_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"

namespace lockstep {

namespace {

/// Post-local SGD with its own subgroups.
class DividedLocalSgdHook final : public CommHook {
 public:
  DividedLocalSgdHook(ProcessGroup& group, const LocalSgdSpec& spec)
      : subgroup_(spec.subgroup > 0 ? new_subgroups(group, spec.subgroup) : nullptr),
        hook_(group,
              {.subgroup = subgroup_ ? subgroup_.get() : &group,
               .start_iter = spec.start_iter,
               .post_local_gradient_allreduce = spec.gradient_allreduce}) {}

  HookEffect effect() const override { return HookEffect::kOther; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override { return hook_.run(bucket); }

  HookState save(Runtime& runtime) const override { return hook_.save(runtime); }

  void load(const HookState& state) override { hook_.load(state); }

 private:
  std::unique_ptr<ProcessGroup> subgroup_;  // Outlives hook_.
  PostLocalSgdHook hook_;
};

using HookMaker = std::unique_ptr<CommHook> (*)(const HookSpec& spec, ProcessGroup& group);

struct KnownHook {
  HookKind kind;
  HookMaker make;
};

template <DType kWire>
std::unique_ptr<CommHook> make_compress(const HookSpec& /*spec*/, ProcessGroup& group) {
  return std::make_unique<CompressHook>(group, kWire);
}

constexpr KnownHook kKnownHooks[] = {
    {HookKind::kAllReduce,
     [](const HookSpec& /*spec*/, ProcessGroup& group) -> std::unique_ptr<CommHook> {
       return std::make_unique<AllReduceHook>(group);
     }},
    {HookKind::kFp16, make_compress<DType::kF16>},
    {HookKind::kBf16, make_compress<DType::kBF16>},
    {HookKind::kNoop,
     [](const HookSpec& /*spec*/, ProcessGroup& /*group*/) -> std::unique_ptr<CommHook> {
       return std::make_unique<NoopHook>();
     }},
    {HookKind::kQuantizePerTensor,
     [](const HookSpec& /*spec*/, ProcessGroup& group) -> std::unique_ptr<CommHook> {
       return std::make_unique<QuantizePerTensorHook>(group);
     }},
    {HookKind::kQuantizePerChannel,
     [](const HookSpec& spec, ProcessGroup& group) -> std::unique_ptr<CommHook> {
       return std::make_unique<QuantizePerChannelHook>(group, spec.channel);
     }},
    {HookKind::kPowerSgd,
     [](const HookSpec& spec, ProcessGroup& group) -> std::unique_ptr<CommHook> {
       return std::make_unique<PowerSgdHook>(group, spec.power_sgd);
     }},
    {HookKind::kPostLocalSgd,
     [](const HookSpec& spec, ProcessGroup& group) -> std::unique_ptr<CommHook> {
       return std::make_unique<DividedLocalSgdHook>(group, spec.local_sgd);
     }},
};

/// Null for a kind that cannot be made.
const KnownHook* find_hook(HookKind kind) {
  const auto* const known = std::find_if(std::begin(kKnownHooks),
                                         std::end(kKnownHooks),
                                         [&](const KnownHook& hook) { return hook.kind == kind; });
  return known == std::end(kKnownHooks) ? nullptr : known;
}

Outcome check_wrapper(const HookSpec& spec) {
  if (spec.wrapper == HookWrapper::kNone || spec.kind == HookKind::kAllReduce ||
      spec.kind == HookKind::kNoop || spec.kind == HookKind::kPostLocalSgd) {
    return success();
  }
  return Error{"no 16-bit wrapper goes around the hook '" + std::string(name_of(spec.kind)) +
                   "', which takes no 16-bit gradients: it is for 'allreduce', 'noop' and "
                   "'post-local-sgd'",
               ""};
}

Outcome check_power_sgd(const PowerSgdOptions& options) {
  if (options.rank < 1) return Error{"an approximation has a rank of at least one", ""};
  if (options.start_iter > 1 || !(options.error_feedback || options.warm_start)) return success();
  return Error{
      "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
      "because PowerSGD can only be applied after the first two iterations in DDP.",
      ""};
}

Outcome check_local_sgd(const LocalSgdSpec& spec, std::int32_t n_ranks) {
  if (spec.subgroup >= 0 && (spec.subgroup == 0 || n_ranks % spec.subgroup == 0)) return success();
  return Error{"subgroups of " + std::to_string(spec.subgroup) + " ranks do not divide " +
                   std::to_string(n_ranks) + " ranks",
               ""};
}

}  // namespace

bool HookSpec::loses() const {
  if (kind == HookKind::kNone || kind == HookKind::kNoop) return false;
  return kind != HookKind::kAllReduce || wrapper != HookWrapper::kNone;
}

Outcome check_hook(const HookSpec& spec, std::int32_t n_ranks) {
  if (spec.kind == HookKind::kBatchedPowerSgd) {
    return Error{
        "the batched PowerSGD hook fails in PyTorch at its first compressed iteration "
        "(it orthogonalizes a matrix with a routine for stacks of matrices): use 'powersgd'",
        ""};
  }
  Outcome outcome = check_wrapper(spec);
  if (outcome.ok() && spec.kind == HookKind::kPowerSgd) outcome = check_power_sgd(spec.power_sgd);
  if (outcome.ok() && spec.kind == HookKind::kQuantizePerChannel && spec.channel < 1) {
    return Error{"a channel has at least one element", ""};
  }
  if (outcome.ok() && spec.kind == HookKind::kPostLocalSgd) {
    outcome = check_local_sgd(spec.local_sgd, n_ranks);
  }
  return outcome;
}

Result<std::unique_ptr<CommHook>> make_comm_hook(const HookSpec& spec, ProcessGroup& group) {
  const Outcome outcome = check_hook(spec, group.size());
  if (!outcome.ok()) return outcome.error();
  std::unique_ptr<CommHook> hook = find_hook(spec.kind)->make(spec, group);
  if (spec.wrapper == HookWrapper::kNone) return hook;
  const DType wire = spec.wrapper == HookWrapper::kFp16 ? DType::kF16 : DType::kBF16;
  return std::unique_ptr<CommHook>(std::make_unique<CompressWrapper>(std::move(hook), wire));
}

}  // namespace lockstep
