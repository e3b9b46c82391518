#include "lockstep/train/wrapping/wrapped_model.h"

#include <utility>

#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

namespace {

ManualAverage::Order order_of(const DdpSpec& spec) {
  if (spec.average != AverageBy::kManual) return ManualAverage::Order::kNone;
  const bool by_model = spec.average_order == AverageOrder::kModel;
  return by_model ? ManualAverage::Order::kModel : ManualAverage::Order::kArrival;
}

}  // namespace

WrappedModel::WrappedModel(const Job& job, RankContext& context)
    : job_(job),
      context_(context),
      model_(build_model(job.model, context.runtime(), context.rank())) {}

void WrappedModel::wrap() {
  if (job_.ddp.wrap) {
    ddp_ = std::make_unique<DistributedDataParallel<nn::Module>>(
        *model_, context_.world(), job_.ddp.options);
    register_hook();
  } else {
    manual_ = std::make_unique<ManualAverage>(*model_, context_, order_of(job_.ddp));
  }
}

void WrappedModel::register_hook() {
  if (job_.ddp.hook.kind == HookKind::kNone) return;
  Result<std::unique_ptr<CommHook>> hook = make_comm_hook(job_.ddp.hook, context_.world());
  LOCKSTEP_CHECK(hook.ok(), hook.error().message);
  hook_ = std::move(hook).value();
  ddp_->register_comm_hook(*hook_);
}

Variable WrappedModel::forward(const Variable& x, bool through_wrapper, bool synchronizes) {
  if (!ddp_) return manual_->forward(x);
  if (!through_wrapper) return model_->forward(x);
  if (synchronizes) return (*ddp_)(x, {});
  const NoSync guard(*ddp_);
  return (*ddp_)(x, {});
}

}  // namespace lockstep
