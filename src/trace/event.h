// What a rank did, as plain values: the one language that backends, laws and files share.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <variant>

#include "lockstep/base/call_site.h"
#include "lockstep/base/end_reason.h"
#include "lockstep/base/names.h"
#include "lockstep/base/types.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"
#include "lockstep/trace/event_enums.h"
#include "lockstep/trace/signature.h"

namespace lockstep {

/// Where in the training an event belongs. Ranks that skip a step fall behind in `opt` while `sync`
/// stays comparable, so laws align ranks by (attempt, wrapper, sync).
struct Position {
  std::int32_t attempt = 0;   ///< Restart number.
  std::int32_t wrapper = -1;  ///< Index of the DDP wrapper on this rank, -1 = outside any.
  std::int32_t sync = -1;   ///< Index of the current synchronising forward, -1 = before the first.
  std::int32_t micro = -1;  ///< Index of the current forward since the last optimizer step.
  std::int32_t opt = 0;     ///< Optimizer steps finished so far = the number of the current step.
  std::int32_t epoch = 0;

  /// Two numbers at a time: each event of each rank is compared with the first rank's.
  [[gnu::always_inline]] friend bool operator==(const Position& left, const Position& right) {
    static_assert(std::has_unique_object_representations_v<Position>);
    return std::memcmp(&left, &right, sizeof(Position)) == 0;
  }
};

// Spans in event bodies are valid during the call that delivers them; a reader that keeps an event
// copies them (memory_trace.h).

/// A model was wrapped: the tensors that are replicated from now on.
struct WrapEvent {
  LayoutId params = kNoLayout;   ///< Reducer parameters, in index order.
  LayoutId frozen = kNoLayout;   ///< Parameters that need no gradient: replicated, never reduced.
  LayoutId buffers = kNoLayout;  ///< Buffers, in order.
  LayoutId ignored = kNoLayout;  ///< Names declared local.
  BufferPolicy buffer_policy = BufferPolicy::kNone;
  std::int64_t bucket_cap_bytes = 0;
  std::int32_t group = 0;    ///< Group the wrapper reduces over.
  std::int32_t n_ranks = 1;  ///< Size of that group.
  /// False: a hand-written loop, nothing broadcasts or reduces by itself.
  bool synchronizes = true;
};

/// A forward pass began.
struct ForwardEvent {
  bool through_wrapper = true;  ///< False: the inner module was called directly.
  /// Its backward will reduce gradients (wrapped, grad mode, not no_sync).
  bool synchronizing = true;
  bool training = true;                         ///< Module in train mode.
  bool grad = true;                             ///< Grad mode on.
  AutocastType autocast = AutocastType::kNone;  ///< As the forward began.
};

/// A backward pass ended (after the reducer's finalize, if it ran).
struct BackwardEvent {
  bool reduced = false;  ///< All buckets of the wrapper were reduced in this backward.
};

/// The data a forward consumes, and how its loss is normalised.
struct BatchEvent {
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
  /// What the sum of the per-sample (or per-token) losses is divided by on this rank, 0 = unknown.
  /// In units of samples or tokens: a mean over 4 samples of 10 outputs has 4. Factors that scale
  /// the loss equally on all ranks (a loss scaler, exact mode's world size) are left out.
  double denominator = 0.0;
  /// What was meant: "sample-mean" | "token-mean" | "sum" | "rank-mean".
  NameId declared = kNoName;
};

/// Digests (and sketches, when asked for) of gradients, one entry per name of `layout`.
struct GradEvent {
  GradPoint point = GradPoint::kPost;
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> digests = {};
  std::span<const Sketch> sketches = {};  ///< Empty, or one per tensor.
  std::span<const std::int64_t> n_elems = {};
  /// Bit i = tensor i was undefined (None); such entries have digest 0.
  std::span<const std::uint8_t> undefined = {};
  DType dtype = DType::kF32;
  /// Not 0: events of one wrapper with the same number have the same lists. No part of a trace.
  std::uint64_t number = 0;
};

/// Digests of replicated state, one entry per name of `layout`.
struct StateEvent {
  StateKind kind = StateKind::kParam;
  StatePoint point = StatePoint::kStep;
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> digests = {};
};

/// An optimizer step ended. Position::opt is the number of this step (0 for the first).
struct StepEvent {
  double lr = 0.0;
  double scale = 1.0;  ///< Loss scale, 1 when no scaler is used.
  bool found_inf = false;
  bool skipped = false;
  LayoutId layout = kNoLayout;  ///< Parameters this optimizer updates.
};

struct CollectiveEvent {
  CollectivePhase phase = CollectivePhase::kPosted;
  std::int32_t group = 0;  ///< 0 = the world.
  std::int64_t seq = 0;  ///< Per group and rank, from 0; send/recv have their own per pair and tag.
  Signature signature = {};
  /// Of the input when posted, of the output when completed (if recorded).
  std::uint64_t digest = 0;
  CallStatus status = CallStatus::kNone;
};

/// The wrapper (re)built its buckets: parameter indices, bucket after bucket, in launch order.
struct BucketEvent {
  std::span<const std::int32_t> indices = {};
  std::span<const std::int32_t> lengths = {};
};

/// Indices of the samples a forward consumed, in order.
struct SampleEvent {
  NameId split = kNoName;  ///< "train" | "eval" | ...
  std::span<const std::int64_t> ids = {};
};

/// An epoch began.
struct EpochEvent {
  NameId split = kNoName;
  NameId sampler = kNoName;         ///< "distributed" | "random" | "sequential" | foreign names.
  std::uint64_t generator_key = 0;  ///< seed + epoch; meaningless when not shuffled.
  std::uint64_t order_digest = 0;   ///< sm64 over the global order's i64 elements.
  std::int64_t dataset_size = 0;
  std::int64_t n_replicas = 1;
  std::int64_t per_rank = 0;  ///< Samples each rank draws.
  bool shuffle = false;
  bool drop_last = false;
  bool pads = true;  ///< The sampler repeats samples to make ranks even.
};

struct PhaseEvent {
  PhaseKind kind = PhaseKind::kTrain;
};

/// A metric was reported: value = numerator / denominator, if it is a mean.
struct MetricEvent {
  NameId name = kNoName;
  double value = 0.0;
  double numerator = 0.0;
  double denominator = 0.0;
  /// What each sample of this rank's last sample event is worth on its own, in the same order,
  /// repeats included; empty = not recorded. One number per sample, or two where the formula takes
  /// two: prediction and target.
  std::span<const double> parts = {};
  MetricFormula formula = MetricFormula::kNone;
};

/// A branch that may lead to collectives was taken.
struct DecisionEvent {
  NameId name = kNoName;
  std::int64_t value = 0;
};

struct FaultEvent {
  NameId kind = kNoName;
  NameId detail = kNoName;
};

struct LogEvent {
  NameId text = kNoName;
  LogKind kind = LogKind::kNone;
};

/// Values of one tensor, when a run records values (--values) or a scenario asks for them.
struct ValueEvent {
  NameId tensor = kNoName;
  ValuePoint point = ValuePoint::kStep;
  std::span<const double> values = {};
};

/// How the rank's program ended.
struct EndEvent {
  EndOutcome outcome = EndOutcome::kNone;
  NameId detail = kNoName;  ///< Text for people: no law reads it.
  EndReason reason = EndReason::kNone;
};

/// A snapshot was published, found and loaded, or could not be written; or one of its files was.
struct SnapshotEvent {
  SnapshotAction action = SnapshotAction::kPart;
  std::int64_t step = -1;  ///< Optimizer steps it holds; load: -1 = none found, training is new.
  /// save, load, fresh: its folder; part, read, write, open: the file; fail: why.
  NameId detail = kNoName;
  std::uint64_t digest = 0;  ///< part, read: of the file's bytes.
};

/// Something is about to draw from a random stream.
///
/// Recorded once per pass and stream, before its first draw; not at all for streams that are never
/// drawn from: equal seeds do no harm where nothing is drawn.
struct RngEvent {
  NameId stream = kNoName;   ///< What is drawn: "augment", "dropout", ...
  bool shared = false;       ///< Meant to be the same on all ranks; else meant to be unlike any.
  std::int64_t worker = -1;  ///< The loader's worker that draws, -1 = the rank's own process.
  std::uint64_t state = 0;   ///< Digest of the generator's state.
};

/// Where this rank runs and what it was given; recorded before its model is wrapped.
struct EnvironmentEvent {
  std::int32_t world = 0;        ///< Ranks it believes there are.
  std::int32_t local_rank = -1;  ///< Its number on its node, -1 = unknown.
  NameId node = kNoName;         ///< Its node, or empty: unknown.
  NameId device = kNoName;       ///< The accelerator it uses, or empty: none.
  std::uint64_t schema = 0;      ///< Digest of the model's names, shapes and types, 0 = unknown.
};

/// This rank made a group in addition to the world.
struct GroupEvent {
  std::int32_t group = 0;                      ///< As collectives name it.
  std::span<const std::int32_t> members = {};  ///< World ranks, by group rank.
};

/// The program touched memory that a pending transfer of its own rank owned.
struct TouchEvent {
  bool written = false;        ///< The program wrote; otherwise it read.
  NameId operation = kNoName;  ///< What touched: "element", "fill", "add_scaled", ...
  CallSite site = {};          ///< Where in the program, as far as it is known.
  std::int32_t group = 0;      ///< The transfer: its call, and where it was posted.
  std::int64_t seq = 0;
  CollectiveOp call = CollectiveOp::kAllReduce;
  bool receives = false;       ///< The transfer writes the memory; otherwise it only reads it.
  NameId posted_at = kNoName;  ///< "train.py:40", or empty.
  TouchManner manner = TouchManner::kNone;
};

/// A loss function was called, on the output of the last forward of this wrapper; or, without rows, a backward has
/// reached a loss that was divided by a number since.
struct LossEvent {
  NameId function = kNoName;  ///< "mse_loss", "l1_loss", "cross_entropy".
  LossReduction reduction = LossReduction::kMean;
  double value = 0.0;  ///< As returned: after the division, before a loss scaler.
  /// What the sum of the terms was divided by. The gradients of all ranks have equal weight in
  /// their mean only if it is the same everywhere.
  double denominator = 0.0;
  std::int64_t n_terms = 0;  ///< Elements; predictions that count, for cross entropy.
  std::int64_t n_rows = 0;   ///< Of the output: its first dimension, as a rule the samples.
  bool grad = true;          ///< A backward may follow; otherwise it was only looked at.
  /// What its backward goes through, of a wrapper's first losses, after its parameters, or empty: not known.
  NameId graph = kNoName;
};

/// Gradients were clipped in place.
struct ClipEvent {
  ClipKind kind = ClipKind::kNorm;
  double limit = 0.0;
  double norm_type = 2.0;  ///< kNorm: 1, 2 or infinity.
  double norm = 0.0;       ///< kNorm: of all these gradients together, as it was given or found.
  double factor = 1.0;     ///< kNorm: what each of them was multiplied by.
  LayoutId layout = kNoLayout;  ///< The parameters that had a gradient.
  bool whole = true;            ///< False: the norm is also that of another wrapper's gradients.
  double own = 0.0;  ///< Of a norm that was given: that of these gradients alone, 0 = not measured.
};

/// Of a schedule of the learning rate, among an optimizer's options: the steps that it was planned for, and those
/// that it has made.
inline constexpr std::string_view kScheduleTotal = "schedule.total";
inline constexpr std::string_view kScheduleMade = "schedule.made";

/// What an optimizer was made with: recorded for each parameter group at its first step, and again
/// at a step before which something of it changed.
struct OptimizerEvent {
  NameId kind = kNoName;                ///< "sgd", "adamw", ...
  std::int32_t group = 0;               ///< Index of the parameter group.
  LayoutId layout = kNoLayout;          ///< Its parameters, those that need no gradient included.
  LayoutId options = kNoLayout;         ///< "lr", "momentum", ...: PyTorch's names.
  std::span<const double> values = {};  ///< One per option; flags are 0 or 1.
};

/// Ranks that had trained alone were brought together: parameters averaged, or an outer optimizer
/// stepped by the mean of how far the ranks had moved.
struct OuterStepEvent {
  NameId kind = kNoName;   ///< "average", or the outer optimizer: "sgd", ...
  std::int32_t group = 0;  ///< Group that was averaged over.
  std::int32_t n_ranks = 1;
  std::int64_t step = 0;     ///< Calls of the averager before this one.
  double denominator = 0.0;  ///< What the sum over the ranks was divided by.
  /// new = start + lr * (mean - start), with momentum: "average" has 1 and 0. A negative rate moves
  /// away from where the ranks went.
  double lr = 1.0;
  double momentum = 0.0;
  bool nesterov = false;
  LayoutId layout = kNoLayout;  ///< The parameters that took part.
};

/// Gradients were forgotten (to_none) or filled with zeros.
struct ZeroGradEvent {
  bool to_none = true;
  LayoutId layout = kNoLayout;
};

/// What some buffers are meant to be, whatever the wrapper's policy says.
struct BufferPolicyEvent {
  LayoutId layout = kNoLayout;
  BufferPolicy policy = BufferPolicy::kNone;
};

/// Something this rank was given and that must be the same on all of them.
struct ConfigurationEvent {
  NameId name = kNoName;  ///< "data", "vocabulary", "configuration", "module 1", ...
  std::uint64_t digest = 0;
  NameId value = kNoName;  ///< In words, such as "Dropout(p=0.1)", or empty.
};

/// What a rank reads, where ids of samples cannot say it: ids count, and do not compare, rows.
struct DataEvent {
  DataPart part = DataPart::kRows;
  NameId split = kNoName;
  /// The sampler: "random", "sequential", a class; "stream": none; "subset": one of its own rows.
  /// Of a table: its name and place in the program.
  NameId source = kNoName;
  std::uint64_t digest = 0;
};

/// The rows of a tensor that a forward was given to train on, or that its loss compares the output with: what they hold,
/// where neither a sampler nor a loader says which samples these are.
struct InputEvent {
  NameId argument = kNoName;  ///< Of the forward: its place, "1", "2", ..., or kTargetArgument.
  DType dtype = DType::kF32;
  std::int64_t n_elems = 0;                  ///< Of a row.
  std::span<const std::uint64_t> rows = {};  ///< A digest of each, in their order (digest_rows).
};

inline constexpr std::string_view kTargetArgument = "target";

/// A communication hook took the place of the wrapper's reduction.
struct CommHookEvent {
  HookEffect effect = HookEffect::kMean;
};

/// A collective sent what a graph had computed, and its result entered the loss of a backward or, if
/// it is a differentiable function's, was dropped unread.
struct ExchangeEvent {
  CollectiveOp call = CollectiveOp::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  std::int32_t group = 0;
  std::int64_t seq = 0;  ///< The call's, as in its collective events.
  std::int32_t n_ranks = 1;
  std::int32_t step = 0;       ///< Optimizer steps that were finished as it was called.
  NameId called_at = kNoName;  ///< "train.py:40", or empty.
  ExchangeJoin join = ExchangeJoin::kConstant;
  bool grad = true;       ///< Grad mode was on: constants were not asked for.
  bool dropped = false;   ///< Nothing read the result.
  bool answered = false;  ///< The backward made a collective for it, which carries gradients back.
  /// All that the loss says of the result is multiplied by the number of ranks.
  bool scaled = false;
  /// Of the gradient that arrived where the result joined the graph, and of the values there if it
  /// joined as a constant; 0 = not known.
  std::uint64_t digest = 0;
};

/// Parameters of a rank that trains alone, as one step left them and the next forward found them:
/// if a program averages them in between, it shows here.
struct LoneEvent {
  LonePoint point = LonePoint::kStepped;
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> digests = {};
  std::span<const Sketch> sketches = {};  ///< One per tensor.
  std::span<const std::int64_t> n_elems = {};
  DType dtype = DType::kF32;
};

/// What a rank records from here on belongs to this training: a program may train several models,
/// one after another, with passes over data, epochs and random streams of their own.
struct TrainingEvent {
  std::int32_t number = 0;  ///< 0 = the first, which needs no event.
};

// The digest of a trace knows kinds by their place in this list: new ones go to its end.
using EventBody = std::variant<WrapEvent,
                               ForwardEvent,
                               BackwardEvent,
                               BatchEvent,
                               GradEvent,
                               StateEvent,
                               StepEvent,
                               CollectiveEvent,
                               BucketEvent,
                               SampleEvent,
                               EpochEvent,
                               PhaseEvent,
                               MetricEvent,
                               DecisionEvent,
                               FaultEvent,
                               LogEvent,
                               ValueEvent,
                               EndEvent,
                               SnapshotEvent,
                               RngEvent,
                               TouchEvent,
                               GroupEvent,
                               EnvironmentEvent,
                               LossEvent,
                               ClipEvent,
                               OptimizerEvent,
                               OuterStepEvent,
                               ZeroGradEvent,
                               BufferPolicyEvent,
                               ConfigurationEvent,
                               CommHookEvent,
                               ExchangeEvent,
                               LoneEvent,
                               TrainingEvent,
                               DataEvent,
                               InputEvent>;

/// One event of one rank.
struct Event {
  Rank rank{};
  std::uint64_t index = 0;  ///< Position in the rank's own stream, from 0.
  VirtualTime time;
  Position at;
  EventBody body;
};

/// All of an event but what it says.
struct EventStamp {
  Rank rank{};
  std::uint64_t index = 0;
  VirtualTime time{};
  Position at{};
};

inline EventStamp stamp_of(const Event& event) {
  return {event.rank, event.index, event.time, event.at};
}

/// Its word is what files call it.
EventKind kind_of(const EventBody& body);

/// One bit per kind, by its place in EventBody.
using EventKinds = std::uint64_t;

static_assert(std::variant_size_v<EventBody> <= std::numeric_limits<EventKinds>::digits);

constexpr EventKinds kAllEventKinds = std::numeric_limits<EventKinds>::max();

namespace detail {

template <typename Body, typename... Bodies>
constexpr EventKinds kind_bit(const std::variant<Bodies...>* /*list*/) {
  EventKinds bit = 1;
  // Counts the places before Body: the fold ends at its first match.
  [[maybe_unused]] const bool found =
      ((std::is_same_v<Body, Bodies> || ((bit <<= 1U), false)) || ...);
  return bit;
}

}  // namespace detail

/// The set of the named kinds: kinds_of<GradEvent, StepEvent>().
template <typename... Bodies>
constexpr EventKinds kinds_of() {
  constexpr const EventBody* kList = nullptr;
  return (detail::kind_bit<Bodies>(kList) | ... | EventKinds{0});
}

}  // namespace lockstep
