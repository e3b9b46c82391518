#include "lockstep/trace/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/trace/detail/logical_time.h"

namespace lockstep {

namespace {

using Facts = std::vector<TimelineFact>;

TimelineFact number_fact(std::string key, std::string digits) {
  return {.key = std::move(key), .value = std::move(digits), .is_text = false};
}

TimelineFact text_fact(std::string key, std::string_view text) {
  return {.key = std::move(key), .value = std::string(text), .is_text = true};
}

class Drawing {
 public:
  explicit Drawing(const MemoryTrace& trace) : trace_(trace), names_(trace.names()) {}

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
  void open_part(std::string name);
  void close_part();
  void close_all();
  void end_calls();
  void slice(Kind kind, std::int64_t start, std::string name, Facts facts = {});
  void mark(TimelineCategory category, std::string name, Facts facts = {});

  /// What is open on the training thread: a phase, in it a step, in it a part.
  struct Open {
    std::int64_t start = 0;
    std::string name;  // Empty: nothing is open.
  };

  using CallKey = std::tuple<std::int32_t, std::int64_t, std::int32_t, std::int32_t, std::int32_t>;
  static CallKey key_of(const CollectiveEvent& call);

  const MemoryTrace& trace_;
  const NameTable& names_;
  std::vector<TimelineEntry> entries_;
  std::int32_t rank_ = 0;
  std::int32_t attempt_ = 0;
  std::int64_t now_ = 0;
  bool evaluates_ = false;
  Open phase_;
  Open step_;
  Open part_;
  std::int64_t update_start_ = -1;  // The optimizer's turn began, or -1.
  std::map<CallKey, TimelineEntry> calls_;
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

void Drawing::open_part(std::string name) {
  close_part();
  part_ = {now_, std::move(name)};
}

void Drawing::close_part() {
  if (!part_.name.empty()) slice(Kind::kPart, part_.start, part_.name);
  part_ = {};
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
  if (part_.name == "forward") open_part("backward");
}

void Drawing::on_forward(const Event& event, const ForwardEvent& forward) {
  close_part();
  update_start_ = -1;
  if (step_.name.empty() && forward.grad && !evaluates_) {
    step_ = {now_, "step " + std::to_string(event.at.opt)};
  }
  open_part(forward.grad ? "forward" : "forward without gradients");
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

Drawing::CallKey Drawing::key_of(const CollectiveEvent& call) {
  const bool message =
      call.signature.op == CollectiveOp::kSend || call.signature.op == CollectiveOp::kRecv;
  const std::int32_t op = message ? static_cast<std::int32_t>(call.signature.op) : -1;
  return {call.group,
          call.seq,
          op,
          message ? call.signature.peer : -1,
          message ? call.signature.tag : 0};
}

void Drawing::on_call(const CollectiveEvent& call) {
  if (call.phase == CollectivePhase::kPosted) {
    const Signature& signature = call.signature;
    calls_[key_of(call)] = {
        .kind = Kind::kCall,
        .blocks = !signature.async,
        .rank = rank_,
        .start = now_,
        .end = now_,
        .category =
            signature.layout != 0 ? TimelineCategory::kBucket : TimelineCategory::kCollective,
        .name = std::string(name_of(signature.op)) + " #" + std::to_string(call.seq),
        .status = {},
        .facts = {number_fact("group", std::to_string(call.group)),
                  number_fact("count", std::to_string(signature.count)),
                  text_fact("dtype", name_of(signature.dtype)),
                  text_fact("site", signature.site.text())}};
    return;
  }
  const auto open = calls_.find(key_of(call));
  if (open == calls_.end()) return;
  TimelineEntry ended = std::move(open->second);
  calls_.erase(open);
  ended.end = now_;
  ended.status = names_.text(call.status);
  ended.failed = call.phase == CollectivePhase::kFailed;
  if (ended.blocks) slice(Kind::kWait, ended.start, "wait: " + ended.name);
  entries_.push_back(std::move(ended));
}

void Drawing::end_calls() {
  for (auto& [key, open] : calls_) {
    open.end = now_;
    open.status = "never completed";
    open.failed = true;
    entries_.push_back(std::move(open));
  }
  calls_.clear();
}

void Drawing::on_mark(const Event& event) {
  if (const auto* buckets = std::get_if<BucketEvent>(&event.body)) {
    mark(TimelineCategory::kBucket,
         "buckets",
         {number_fact("buckets", std::to_string(buckets->lengths.size())),
          number_fact("parameters", std::to_string(buckets->indices.size()))});
  } else if (const auto* fault = std::get_if<FaultEvent>(&event.body)) {
    mark(TimelineCategory::kFault,
         "fault: " + std::string(names_.text(fault->kind)),
         {text_fact("detail", names_.text(fault->detail))});
  } else if (const auto* touch = std::get_if<TouchEvent>(&event.body)) {
    mark(TimelineCategory::kTouch,
         touch->written ? "writes memory in flight" : "reads memory in flight",
         {text_fact("call", names_.text(touch->call)),
          text_fact("operation", names_.text(touch->operation)),
          text_fact("site", touch->site.text())});
  } else if (const auto* decision = std::get_if<DecisionEvent>(&event.body)) {
    mark(TimelineCategory::kDecision,
         "decision: " + std::string(names_.text(decision->name)),
         {number_fact("value", std::to_string(decision->value))});
  } else if (const auto* log = std::get_if<LogEvent>(&event.body)) {
    mark(TimelineCategory::kLog, std::string(names_.text(log->text)));
  } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
    mark(TimelineCategory::kEnd,
         "end: " + std::string(name_of(end->outcome)),
         {text_fact("detail", names_.text(end->detail))});
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
  attempt_ = 0;
  now_ = 0;
  evaluates_ = false;
  const std::span<const Event> events = trace_.events(Rank{rank});
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].at.attempt != attempt_) {
      close_all();
      end_calls();
      attempt_ = events[i].at.attempt;
    }
    now_ = std::max(now_, times[i]);
    on_event(events[i]);
  }
  close_all();
  end_calls();
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
