#include "lockstep/trace/event.h"

namespace lockstep {

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
