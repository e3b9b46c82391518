#include "lockstep/trace/event.h"

namespace lockstep {

std::string_view name_of(GradPoint point) {
  switch (point) {
    case GradPoint::kBase:
      return "base";
    case GradPoint::kInc:
      return "inc";
    case GradPoint::kPre:
      return "pre";
    case GradPoint::kPost:
      return "post";
    case GradPoint::kUsed:
      return "used";
    case GradPoint::kRedo:
      return "redo";
  }
  return "";
}

std::string_view name_of(StatePoint point) {
  switch (point) {
    case StatePoint::kWrap:
      return "wrap";
    case StatePoint::kForward:
      return "forward";
    case StatePoint::kStep:
      return "step";
    case StatePoint::kEval:
      return "eval";
    case StatePoint::kLoad:
      return "load";
    case StatePoint::kSave:
      return "save";
    case StatePoint::kEnd:
      return "end";
    case StatePoint::kOuter:
      return "outer";
  }
  return "";
}

std::string_view name_of(StateKind kind) {
  switch (kind) {
    case StateKind::kParam:
      return "param";
    case StateKind::kBuffer:
      return "buffer";
    case StateKind::kOptimizer:
      return "optimizer";
    case StateKind::kAuxiliary:
      return "auxiliary";
  }
  return "";
}

std::string_view name_of(MetricFormula formula) {
  switch (formula) {
    case MetricFormula::kNone:
      return "";
    case MetricFormula::kPearson:
      return "pearson";
    case MetricFormula::kSpearman:
      return "spearman";
    case MetricFormula::kR2:
      return "r2";
    case MetricFormula::kRmse:
      return "rmse";
    case MetricFormula::kAuc:
      return "auc";
  }
  return "";
}

std::string_view name_of(ExchangeJoin join) {
  switch (join) {
    case ExchangeJoin::kConstant:
      return "constant";
    case ExchangeJoin::kInPlace:
      return "in-place";
    case ExchangeJoin::kFunction:
      return "function";
  }
  return "";
}

std::string_view name_of(LonePoint point) {
  switch (point) {
    case LonePoint::kStepped:
      return "stepped";
    case LonePoint::kFound:
      return "found";
  }
  return "";
}

std::string_view name_of(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::kMean:
      return "mean";
    case LossReduction::kSum:
      return "sum";
    case LossReduction::kGiven:
      return "given";
  }
  return "";
}

std::string_view name_of(DataPart part) {
  switch (part) {
    case DataPart::kRows:
      return "rows";
    case DataPart::kBatch:
      return "batch";
  }
  return "";
}

std::string_view name_of(HookEffect effect) {
  switch (effect) {
    case HookEffect::kMean:
      return "mean";
    case HookEffect::kRounded:
      return "rounded";
    case HookEffect::kOther:
      return "other";
  }
  return "";
}

std::string_view name_of(ClipKind kind) {
  switch (kind) {
    case ClipKind::kNorm:
      return "norm";
    case ClipKind::kValue:
      return "value";
  }
  return "";
}

std::string_view name_of(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kTrain:
      return "train";
    case PhaseKind::kEval:
      return "eval";
    case PhaseKind::kSave:
      return "save";
    case PhaseKind::kEnd:
      return "end";
  }
  return "";
}

std::string_view name_of(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "all_reduce";
    case CollectiveOp::kBroadcast:
      return "broadcast";
    case CollectiveOp::kReduce:
      return "reduce";
    case CollectiveOp::kAllGather:
      return "all_gather";
    case CollectiveOp::kReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::kGather:
      return "gather";
    case CollectiveOp::kScatter:
      return "scatter";
    case CollectiveOp::kAllToAll:
      return "all_to_all";
    case CollectiveOp::kBarrier:
      return "barrier";
    case CollectiveOp::kSend:
      return "send";
    case CollectiveOp::kRecv:
      return "recv";
  }
  return "";
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kPremulSum:
      return "premul_sum";
    case ReduceOp::kBand:
      return "band";
    case ReduceOp::kBor:
      return "bor";
    case ReduceOp::kBxor:
      return "bxor";
  }
  return "";
}

std::string_view name_of(TouchManner manner) {
  switch (manner) {
    case TouchManner::kNone:
      return "";
    case TouchManner::kValue:
      return "value";
    case TouchManner::kAbandoned:
      return "abandoned";
  }
  return "";
}

std::string_view name_of(CollectivePhase phase) {
  switch (phase) {
    case CollectivePhase::kPosted:
      return "posted";
    case CollectivePhase::kCompleted:
      return "completed";
    case CollectivePhase::kFailed:
      return "failed";
  }
  return "";
}

namespace {

struct KindName {
  std::string_view operator()(const WrapEvent&) const { return "wrap"; }

  std::string_view operator()(const ForwardEvent&) const { return "forward"; }

  std::string_view operator()(const BackwardEvent&) const { return "backward"; }

  std::string_view operator()(const BatchEvent&) const { return "batch"; }

  std::string_view operator()(const GradEvent&) const { return "grad"; }

  std::string_view operator()(const StateEvent& event) const { return name_of(event.kind); }

  std::string_view operator()(const StepEvent&) const { return "step"; }

  std::string_view operator()(const CollectiveEvent&) const { return "collective"; }

  std::string_view operator()(const BucketEvent&) const { return "bucket"; }

  std::string_view operator()(const SampleEvent&) const { return "sample"; }

  std::string_view operator()(const EpochEvent&) const { return "epoch"; }

  std::string_view operator()(const PhaseEvent&) const { return "phase"; }

  std::string_view operator()(const MetricEvent&) const { return "metric"; }

  std::string_view operator()(const DecisionEvent&) const { return "decision"; }

  std::string_view operator()(const FaultEvent&) const { return "fault"; }

  std::string_view operator()(const LogEvent&) const { return "log"; }

  std::string_view operator()(const ValueEvent&) const { return "value"; }

  std::string_view operator()(const EndEvent&) const { return "end"; }

  std::string_view operator()(const EnvironmentEvent&) const { return "environment"; }

  std::string_view operator()(const GroupEvent&) const { return "group"; }

  std::string_view operator()(const TouchEvent&) const { return "touch"; }

  std::string_view operator()(const RngEvent&) const { return "rng"; }

  std::string_view operator()(const SnapshotEvent&) const { return "snapshot"; }

  std::string_view operator()(const LossEvent&) const { return "loss"; }

  std::string_view operator()(const ClipEvent&) const { return "clip"; }

  // "optimizer" is what the events of its state are called.
  std::string_view operator()(const OptimizerEvent&) const { return "options"; }

  std::string_view operator()(const OuterStepEvent&) const { return "outer_step"; }

  std::string_view operator()(const ZeroGradEvent&) const { return "zero_grad"; }

  std::string_view operator()(const BufferPolicyEvent&) const { return "buffer_policy"; }

  std::string_view operator()(const ConfigurationEvent&) const { return "configuration"; }

  std::string_view operator()(const CommHookEvent&) const { return "comm_hook"; }

  std::string_view operator()(const ExchangeEvent&) const { return "exchange"; }

  std::string_view operator()(const LoneEvent&) const { return "lone"; }

  std::string_view operator()(const DataEvent&) const { return "data"; }

  std::string_view operator()(const TrainingEvent&) const { return "training"; }
};

}  // namespace

std::string_view kind_of(const EventBody& body) { return std::visit(KindName{}, body); }

}  // namespace lockstep
