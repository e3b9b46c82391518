#include "lockstep/trace/perfetto.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/trace/detail/logical_time.h"
#include "lockstep/trace/json_text.h"

namespace lockstep {

namespace {

constexpr std::int32_t kTraining = 0;
constexpr std::int32_t kWaits = 1;

/// Members of a slice's "args": texts and numbers.
using Args = std::vector<std::pair<std::string, std::string>>;

/// One line of the picture.
struct Entry {
  char phase = 'X';
  std::int32_t rank = 0;
  std::int32_t thread = 0;
  std::int64_t time = 0;
  std::int64_t span = 0;
  std::string category;
  std::string name;
  std::string id;
  Args args;
};

/// Microseconds with three decimals.
std::string microseconds(std::int64_t ns) {
  const std::int64_t positive = ns < 0 ? -ns : ns;
  const std::string part = std::to_string(1000 + positive % 1000).substr(1);
  return (ns < 0 ? "-" : "") + std::to_string(positive / 1000) + "." + part;
}

std::string json_quoted(std::string_view text) {
  JsonText out;
  out.text(text);
  return out.str();
}

void append_all(std::string& out, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) out += part;
}

class Drawing {
 public:
  Drawing(const MemoryTrace& trace, TimelineCounts& counts)
      : trace_(trace), names_(trace.names()), counts_(&counts) {}

  void draw_rank(std::int32_t rank, std::span<const std::int64_t> times);
  void draw_note(const TimelineNote& note, std::span<const std::int64_t> times);
  std::string json();

 private:
  void on_event(const Event& event);
  void on_forward(const Event& event, const ForwardEvent& forward);
  void on_step(const Event& event, const StepEvent& step);
  void on_phase(const PhaseEvent& phase);
  void on_call(const Event& event, const CollectiveEvent& call);
  void on_mark(const Event& event);
  void begin_backward();
  void open_part(std::string name);
  void close_part();
  void close_all();
  void end_calls();
  void slice(std::int32_t thread, std::int64_t start, std::string name, Args args = {});
  void mark(std::string category, std::string name, Args args = {});
  void write(const Entry& entry, std::string& out) const;

  /// What is open on the training thread: a phase, in it a step, in it a part.
  struct Open {
    std::int64_t start = 0;
    std::string name;  // Empty: nothing is open.
  };

  struct OpenCall {
    std::int64_t start = 0;
    Entry begin;
    bool blocks = false;
  };

  using CallKey = std::tuple<std::int32_t, std::int64_t, std::int32_t, std::int32_t, std::int32_t>;
  static CallKey key_of(const CollectiveEvent& call);

  const MemoryTrace& trace_;
  const NameTable& names_;
  TimelineCounts* counts_;
  std::vector<Entry> entries_;
  std::int32_t rank_ = 0;
  std::int32_t attempt_ = 0;
  std::int64_t now_ = 0;
  std::int64_t calls_drawn_ = 0;
  bool evaluates_ = false;
  Open phase_;
  Open step_;
  Open part_;
  std::int64_t update_start_ = -1;  // The optimizer's turn began, or -1.
  std::map<CallKey, OpenCall> calls_;
};

void Drawing::slice(std::int32_t thread, std::int64_t start, std::string name, Args args) {
  ++counts_->n_slices;
  entries_.push_back({.phase = 'X',
                      .rank = rank_,
                      .thread = thread,
                      .time = start,
                      .span = now_ - start,
                      .category = thread == kWaits ? "wait" : "compute",
                      .name = std::move(name),
                      .id = {},
                      .args = std::move(args)});
}

void Drawing::mark(std::string category, std::string name, Args args) {
  ++counts_->n_marks;
  entries_.push_back({.phase = 'i',
                      .rank = rank_,
                      .thread = kTraining,
                      .time = now_,
                      .span = 0,
                      .category = std::move(category),
                      .name = std::move(name),
                      .id = {},
                      .args = std::move(args)});
}

void Drawing::open_part(std::string name) {
  close_part();
  part_ = {now_, std::move(name)};
}

void Drawing::close_part() {
  if (!part_.name.empty()) slice(kTraining, part_.start, part_.name);
  part_ = {};
}

void Drawing::close_all() {
  close_part();
  if (!step_.name.empty()) slice(kTraining, step_.start, step_.name);
  step_ = {};
  if (!phase_.name.empty()) slice(kTraining, phase_.start, phase_.name);
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

void Drawing::on_step(const Event& /*event*/, const StepEvent& step) {
  close_part();
  if (update_start_ >= 0) slice(kTraining, update_start_, step.skipped ? "skipped" : "optimizer");
  update_start_ = -1;
  if (step_.name.empty()) return;
  slice(kTraining, step_.start, step_.name, {{"lr", json_quoted(std::to_string(step.lr))}});
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

void Drawing::on_call(const Event& /*event*/, const CollectiveEvent& call) {
  if (call.phase == CollectivePhase::kPosted) {
    const Signature& signature = call.signature;
    const bool bucket = signature.layout != 0;
    Entry begin = {.phase = 'b',
                   .rank = rank_,
                   .thread = kTraining,
                   .time = now_,
                   .span = 0,
                   .category = bucket ? "bucket" : "collective",
                   .name = std::string(name_of(signature.op)) + " #" + std::to_string(call.seq),
                   .id = std::to_string(rank_) + "." + std::to_string(calls_drawn_++),
                   .args = {}};
    begin.args = {{"group", std::to_string(call.group)},
                  {"count", std::to_string(signature.count)},
                  {"dtype", json_quoted(name_of(signature.dtype))},
                  {"site", json_quoted(signature.site.text())}};
    calls_[key_of(call)] = {now_, std::move(begin), !signature.async};
    return;
  }
  const auto open = calls_.find(key_of(call));
  if (open == calls_.end()) return;
  OpenCall ended = std::move(open->second);
  calls_.erase(open);
  ++counts_->n_calls;
  Entry end = ended.begin;
  end.phase = 'e';
  end.time = now_;
  end.args = {{"status", json_quoted(names_.text(call.status))}};
  if (ended.blocks) slice(kWaits, ended.start, "wait: " + ended.begin.name);
  entries_.push_back(std::move(ended.begin));
  entries_.push_back(std::move(end));
}

/// Calls that never came to an end are drawn up to the end of their rank.
void Drawing::end_calls() {
  for (auto& [key, open] : calls_) {
    ++counts_->n_calls;
    Entry end = open.begin;
    end.phase = 'e';
    end.time = now_;
    end.args = {{"status", json_quoted("never completed")}};
    entries_.push_back(std::move(open.begin));
    entries_.push_back(std::move(end));
  }
  calls_.clear();
}

void Drawing::on_mark(const Event& event) {
  if (const auto* buckets = std::get_if<BucketEvent>(&event.body)) {
    mark("bucket",
         "buckets",
         {{"buckets", std::to_string(buckets->lengths.size())},
          {"parameters", std::to_string(buckets->indices.size())}});
  } else if (const auto* fault = std::get_if<FaultEvent>(&event.body)) {
    mark("fault",
         "fault: " + std::string(names_.text(fault->kind)),
         {{"detail", json_quoted(names_.text(fault->detail))}});
  } else if (const auto* touch = std::get_if<TouchEvent>(&event.body)) {
    mark("touch",
         touch->written ? "writes memory in flight" : "reads memory in flight",
         {{"call", json_quoted(names_.text(touch->call))},
          {"operation", json_quoted(names_.text(touch->operation))},
          {"site", json_quoted(touch->site.text())}});
  } else if (const auto* decision = std::get_if<DecisionEvent>(&event.body)) {
    mark("decision",
         "decision: " + std::string(names_.text(decision->name)),
         {{"value", std::to_string(decision->value)}});
  } else if (const auto* log = std::get_if<LogEvent>(&event.body)) {
    mark("log", std::string(names_.text(log->text)));
  } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
    mark("end",
         "end: " + std::string(names_.text(end->outcome)),
         {{"detail", json_quoted(names_.text(end->detail))}});
  }
}

void Drawing::on_event(const Event& event) {
  if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    on_forward(event, *forward);
  } else if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    if (grad->point != GradPoint::kUsed) begin_backward();
  } else if (std::holds_alternative<BackwardEvent>(event.body)) {
    begin_backward();
    close_part();
    update_start_ = now_;
  } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
    on_step(event, *step);
  } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
    on_phase(*phase);
  } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
    if (call->phase == CollectivePhase::kPosted && call->signature.layout != 0) begin_backward();
    on_call(event, *call);
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
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].at.attempt != note.attempt) continue;
    const auto* call = std::get_if<CollectiveEvent>(&events[i].body);
    const bool is_call = call != nullptr && note.seq && call->seq == *note.seq &&
                         call->group == note.group.value_or(0);
    const bool is_step = note.step && !note.seq && events[i].at.opt == *note.step;
    if (is_call || is_step) now_ = times[i];
    if (is_call) break;
  }
  mark("finding", "finding: " + note.title, {{"text", json_quoted(note.text)}});
}

void Drawing::write(const Entry& entry, std::string& out) const {
  out += "{\"ph\":\"";
  out += entry.phase;
  out += "\",\"pid\":" + std::to_string(entry.rank) + ",\"tid\":" + std::to_string(entry.thread) +
         ",\"ts\":" + microseconds(entry.time);
  if (entry.phase == 'X') out += ",\"dur\":" + microseconds(entry.span);
  if (entry.phase == 'i') out += ",\"s\":\"t\"";
  if (!entry.id.empty()) out += ",\"id\":" + json_quoted(entry.id);
  out += ",\"cat\":" + json_quoted(entry.category) + ",\"name\":" + json_quoted(entry.name) +
         ",\"args\":{";
  for (std::size_t i = 0; i < entry.args.size(); ++i) {
    out += (i == 0 ? "" : ",") + json_quoted(entry.args[i].first) + ":" + entry.args[i].second;
  }
  out += "}}";
}

std::string Drawing::json() {
  // Of slices that begin together the longer one comes first: it holds the other.
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.time, -a.span) < std::tuple(b.time, -b.span);
  });
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (std::int32_t rank = 0; rank < trace_.n_ranks(); ++rank) {
    const std::string number = std::to_string(rank);
    append_all(out,
               {R"({"ph":"M","pid":)",
                number,
                R"(,"name":"process_name","args":{"name":"rank )",
                number,
                "\"}},\n",
                R"({"ph":"M","pid":)",
                number,
                R"(,"name":"process_sort_index","args":{"sort_index":)",
                number,
                "}},\n",
                R"({"ph":"M","pid":)",
                number,
                R"(,"tid":0,"name":"thread_name","args":{"name":"training"}},)",
                "\n",
                R"({"ph":"M","pid":)",
                number,
                R"(,"tid":1,"name":"thread_name","args":{"name":"waits"}},)",
                "\n"});
  }
  for (const Entry& entry : entries_) {
    write(entry, out);
    out += ",\n";
  }
  if (out.ends_with(",\n")) out.resize(out.size() - 2);
  return out + "\n]}\n";
}

}  // namespace

Timeline render_perfetto(const MemoryTrace& trace, std::span<const TimelineNote> notes) {
  const std::vector<std::vector<std::int64_t>> times = detail::drawing_times(trace);
  Timeline timeline;
  Drawing drawing(trace, timeline.counts);
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    drawing.draw_rank(r, times[static_cast<std::size_t>(r)]);
  }
  for (const TimelineNote& note : notes) {
    if (to_int(note.rank) < trace.n_ranks()) drawing.draw_note(note, times[to_index(note.rank)]);
  }
  timeline.json = drawing.json();
  return timeline;
}

}  // namespace lockstep
