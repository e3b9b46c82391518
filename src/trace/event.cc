#include "lockstep/trace/event.h"

#include <cstddef>

namespace lockstep {

namespace {

struct KindOf {
  EventKind operator()(const WrapEvent&) const { return EventKind::kWrap; }

  EventKind operator()(const ForwardEvent&) const { return EventKind::kForward; }

  EventKind operator()(const BackwardEvent&) const { return EventKind::kBackward; }

  EventKind operator()(const BatchEvent&) const { return EventKind::kBatch; }

  EventKind operator()(const GradEvent&) const { return EventKind::kGrad; }

  EventKind operator()(const StateEvent& event) const {
    return static_cast<EventKind>(static_cast<std::size_t>(EventKind::kParam) +
                                  static_cast<std::size_t>(event.kind));
  }

  EventKind operator()(const StepEvent&) const { return EventKind::kStep; }

  EventKind operator()(const CollectiveEvent&) const { return EventKind::kCollective; }

  EventKind operator()(const BucketEvent&) const { return EventKind::kBucket; }

  EventKind operator()(const SampleEvent&) const { return EventKind::kSample; }

  EventKind operator()(const EpochEvent&) const { return EventKind::kEpoch; }

  EventKind operator()(const PhaseEvent&) const { return EventKind::kPhase; }

  EventKind operator()(const MetricEvent&) const { return EventKind::kMetric; }

  EventKind operator()(const DecisionEvent&) const { return EventKind::kDecision; }

  EventKind operator()(const FaultEvent&) const { return EventKind::kFault; }

  EventKind operator()(const LogEvent&) const { return EventKind::kLog; }

  EventKind operator()(const ValueEvent&) const { return EventKind::kValue; }

  EventKind operator()(const EndEvent&) const { return EventKind::kEnd; }

  EventKind operator()(const EnvironmentEvent&) const { return EventKind::kEnvironment; }

  EventKind operator()(const GroupEvent&) const { return EventKind::kGroup; }

  EventKind operator()(const TouchEvent&) const { return EventKind::kTouch; }

  EventKind operator()(const RngEvent&) const { return EventKind::kRng; }

  EventKind operator()(const SnapshotEvent&) const { return EventKind::kSnapshot; }

  EventKind operator()(const LossEvent&) const { return EventKind::kLoss; }

  EventKind operator()(const ClipEvent&) const { return EventKind::kClip; }

  EventKind operator()(const OptimizerEvent&) const { return EventKind::kOptions; }

  EventKind operator()(const OuterStepEvent&) const { return EventKind::kOuterStep; }

  EventKind operator()(const ZeroGradEvent&) const { return EventKind::kZeroGrad; }

  EventKind operator()(const BufferPolicyEvent&) const { return EventKind::kBufferPolicy; }

  EventKind operator()(const ConfigurationEvent&) const { return EventKind::kConfiguration; }

  EventKind operator()(const CommHookEvent&) const { return EventKind::kCommHook; }

  EventKind operator()(const ExchangeEvent&) const { return EventKind::kExchange; }

  EventKind operator()(const LoneEvent&) const { return EventKind::kLone; }

  EventKind operator()(const DataEvent&) const { return EventKind::kData; }

  EventKind operator()(const TrainingEvent&) const { return EventKind::kTraining; }

  EventKind operator()(const InputEvent&) const { return EventKind::kInput; }
};

}  // namespace

EventKind kind_of(const EventBody& body) { return std::visit(KindOf{}, body); }

}  // namespace lockstep
