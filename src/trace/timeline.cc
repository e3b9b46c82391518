#include "lockstep/trace/timeline.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/tensor/dtype.h"
#include "lockstep/trace/detail/logical_time.h"
#include "lockstep/trace/detail/open_calls.h"
#include "lockstep/trace/detail/timeline_facts.h"

namespace lockstep {

namespace {

using detail::number_fact;
using detail::text_fact;
using Facts = std::vector<TimelineFact>;

/// What a step or an evaluation is made of, up to the optimizer's turn.
enum class Part : std::uint8_t { kNone, kForward, kForwardAlone, kBackward };

constexpr std::string_view kBackwardScope = "ddp.backward";

}  // namespace

bool is_awaited_by_backward(const CollectiveEvent& posted) {
  return posted.signature.layout != 0 || posted.signature.site.scope == kBackwardScope;
}

bool reduces_bucket(const CollectiveEvent& posted) {
  return is_awaited_by_backward(posted) && is_floating(posted.signature.dtype);
}

template <>
inline constexpr EnumNames<4> kEnumNames<Part> = {
    "", "forward", "forward without gradients", "backward"};

namespace {

class Drawing {
 public:
  explicit Drawing(const MemoryTrace& trace) : trace_(trace) {}

  void draw_rank(std::int32_t rank, std::span<const std::int64_t> times);
  void draw_note(const TimelineNote& note, std::span<const std::int64_t> times);

  std::vector<TimelineEntry> take() { return std::move(entries_); }

 private:
  using Kind = TimelineEntry::Kind;

  void on_event(const Event& event);
  void on_forward(const Event& event, const ForwardEvent& forward);
  void on_step(const StepEvent& step);
  void on_phase(const PhaseEvent& phase);
  void on_call(const CollectiveEvent& call);
  void on_mark(const Event& event);
  void begin_backward();
  void open_part(Part part);
  void close_part();
  void close_all();
  void slice(Kind kind, std::int64_t start, std::string name, Facts facts = {});
  void mark(TimelineCategory category, std::string name, Facts facts = {});

  /// What is open on the training thread: a phase, in it a step, in it a part.
  struct Open {
    std::int64_t start = 0;
    std::string name;  // Empty: nothing is open.
  };

  const MemoryTrace& trace_;
  std::vector<TimelineEntry> entries_;
  std::int32_t rank_ = 0;
  std::int64_t now_ = 0;
  bool evaluates_ = false;
  Open phase_;
  Open step_;
  Part part_ = Part::kNone;
  std::int64_t part_start_ = 0;
  std::int64_t update_start_ = -1;  // The optimizer's turn began, or -1.
  detail::OpenCalls calls_;
};

void Drawing::slice(Kind kind, std::int64_t start, std::string name, Facts facts) {
  entries_.push_back({.kind = kind,
                      .blocks = false,
                      .rank = rank_,
                      .start = start,
                      .end = now_,
                      .name = std::move(name),
                      .status = {},
                      .facts = std::move(facts)});
}

void Drawing::mark(TimelineCategory category, std::string name, Facts facts) {
  slice(Kind::kMark, now_, std::move(name), std::move(facts));
  entries_.back().category = category;
}

void Drawing::open_part(Part part) {
  close_part();
  part_ = part;
  part_start_ = now_;
}

void Drawing::close_part() {
  if (part_ != Part::kNone) slice(Kind::kPart, part_start_, std::string(name_of(part_)));
  part_ = Part::kNone;
}

void Drawing::close_all() {
  close_part();
  if (!step_.name.empty()) slice(Kind::kStep, step_.start, step_.name);
  step_ = {};
  if (!phase_.name.empty()) slice(Kind::kPhase, phase_.start, phase_.name);
  phase_ = {};
  update_start_ = -1;
}

// Backward has no event at its start: the first thing that only a backward pass does stands for it.
void Drawing::begin_backward() {
  if (part_ == Part::kForward) open_part(Part::kBackward);
}

void Drawing::on_forward(const Event& event, const ForwardEvent& forward) {
  close_part();
  update_start_ = -1;
  if (step_.name.empty() && forward.grad && !evaluates_) {
    step_ = {now_, "step " + std::to_string(event.at.opt)};
  }
  open_part(forward.grad ? Part::kForward : Part::kForwardAlone);
}

void Drawing::on_step(const StepEvent& step) {
  close_part();
  if (update_start_ >= 0) slice(Kind::kPart, update_start_, step.skipped ? "skipped" : "optimizer");
  update_start_ = -1;
  if (step_.name.empty()) return;
  slice(Kind::kStep, step_.start, step_.name, {text_fact("lr", std::to_string(step.lr))});
  step_ = {};
}

void Drawing::on_phase(const PhaseEvent& phase) {
  close_all();
  evaluates_ = phase.kind == PhaseKind::kEval;
  const bool lasts = phase.kind == PhaseKind::kEval || phase.kind == PhaseKind::kSave;
  if (lasts) phase_ = {now_, phase.kind == PhaseKind::kEval ? "evaluation" : "snapshot"};
}

void Drawing::on_call(const CollectiveEvent& call) {
  if (call.phase == CollectivePhase::kPosted) return calls_.post(call, rank_, now_);
  std::optional<TimelineEntry> ended = calls_.end(call, now_);
  if (!ended) return;
  if (ended->blocks) slice(Kind::kWait, ended->start, "wait: " + ended->name);
  entries_.push_back(std::move(*ended));
}

void Drawing::on_mark(const Event& event) {
  if (const auto* buckets = std::get_if<BucketEvent>(&event.body)) {
    mark(TimelineCategory::kBucket,
         "buckets",
         {number_fact("buckets", std::to_string(buckets->lengths.size())),
          number_fact("parameters", std::to_string(buckets->indices.size()))});
  } else if (const auto* fault = std::get_if<FaultEvent>(&event.body)) {
    mark(TimelineCategory::kFault,
         "fault: " + std::string(trace_.names().text(fault->kind)),
         {text_fact("detail", trace_.names().text(fault->detail))});
  } else if (const auto* touch = std::get_if<TouchEvent>(&event.body)) {
    mark(TimelineCategory::kTouch,
         touch->written ? "writes memory in flight" : "reads memory in flight",
         {text_fact("call", name_of(touch->call)),
          text_fact("operation", trace_.names().text(touch->operation)),
          text_fact("site", touch->site.text())});
  } else if (const auto* decision = std::get_if<DecisionEvent>(&event.body)) {
    mark(TimelineCategory::kDecision,
         "decision: " + std::string(trace_.names().text(decision->name)),
         {number_fact("value", std::to_string(decision->value))});
  } else if (const auto* log = std::get_if<LogEvent>(&event.body)) {
    mark(TimelineCategory::kLog, std::string(trace_.names().text(log->text)));
  } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
    mark(TimelineCategory::kEnd,
         "end: " + std::string(name_of(end->outcome)),
         {text_fact("detail", trace_.names().text(end->detail))});
    entries_.back().failed = end->outcome != EndOutcome::kOk;
  }
}

void Drawing::on_event(const Event& event) {
  if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    on_forward(event, *forward);
  } else if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    const bool after = grad->point == GradPoint::kUsed || grad->point == GradPoint::kRedo;
    if (!after) begin_backward();
  } else if (std::holds_alternative<BackwardEvent>(event.body)) {
    begin_backward();
    close_part();
    update_start_ = now_;
  } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
    on_step(*step);
  } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
    on_phase(*phase);
  } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
    if (call->phase == CollectivePhase::kPosted && call->signature.layout != 0) begin_backward();
    on_call(*call);
  } else {
    on_mark(event);
  }
}

void Drawing::draw_rank(std::int32_t rank, std::span<const std::int64_t> times) {
  rank_ = rank;
  now_ = 0;
  evaluates_ = false;
  const std::span<const Event> events = trace_.events(Rank{rank});
  std::int32_t attempt = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].at.attempt != attempt) {
      close_all();
      for (TimelineEntry& left : calls_.abandon(now_)) entries_.push_back(std::move(left));
      attempt = events[i].at.attempt;
    }
    now_ = std::max(now_, times[i]);
    on_event(events[i]);
  }
  close_all();
  for (TimelineEntry& left : calls_.abandon(now_)) entries_.push_back(std::move(left));
}

void Drawing::draw_note(const TimelineNote& note, std::span<const std::int64_t> times) {
  const std::span<const Event> events = trace_.events(note.rank);
  rank_ = to_int(note.rank);
  now_ = times.empty() ? 0 : times.back();
  // What belongs to no wrapper counts no steps: all of it is at step 0.
  const bool of_wrapper =
      std::ranges::any_of(events, [](const Event& event) { return event.at.wrapper >= 0; });
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].at.attempt != note.attempt) continue;
    const auto* call = std::get_if<CollectiveEvent>(&events[i].body);
    const bool is_call = call != nullptr && note.seq && call->seq == *note.seq &&
                         call->group == note.group.value_or(0);
    const bool is_step = note.step && !note.seq && events[i].at.opt == *note.step &&
                         (!of_wrapper || events[i].at.wrapper >= 0);
    if (is_call || is_step) now_ = times[i];
    if (is_call) break;
  }
  mark(TimelineCategory::kFinding, "finding: " + note.title, {text_fact("text", note.text)});
}

}  // namespace

TimelineEntries timeline_entries(const MemoryTrace& trace, std::span<const TimelineNote> notes) {
  const std::vector<std::vector<std::int64_t>> times = detail::drawing_times(trace);
  Drawing drawing(trace);
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    drawing.draw_rank(r, times[static_cast<std::size_t>(r)]);
  }
  for (const TimelineNote& note : notes) {
    if (to_int(note.rank) < trace.n_ranks()) drawing.draw_note(note, times[to_index(note.rank)]);
  }
  return {.entries = drawing.take(), .timed = detail::is_timed(trace)};
}

}  // namespace lockstep
