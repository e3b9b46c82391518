// Ranks over time: what they compute, which calls are in flight, what went wrong.
#include "lockstep/trace/timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "lockstep/harness/report/detail/sections.h"
#include "lockstep/harness/report/timeline_notes.h"

namespace lockstep::page {

namespace {

using Kind = TimelineEntry::Kind;

constexpr std::size_t kMaxLanes = 16;
constexpr std::size_t kMaxSteps = 8;
constexpr std::size_t kMaxShapes = 2500;
constexpr std::size_t kMaxTimelineRows = 128;
constexpr std::size_t kCallRows = 3;
constexpr double kLaneLabels = 70;
constexpr double kLaneWidth = 900;
constexpr double kLaneHeight = 50;

/// What part of a run is drawn.
struct Excerpt {
  std::int64_t from = 0;
  std::int64_t to = 1;
  std::string why;  ///< Empty: all of it.
};

std::string duration_text(std::int64_t ns, bool timed) {
  if (!timed) return counted(ns / 1000, "event");
  if (ns < 10'000) return std::to_string(ns) + " ns";
  if (ns < 10'000'000) return short_number(static_cast<double>(ns) / 1e3) + " \u00b5s";
  if (ns < 10'000'000'000) return short_number(static_cast<double>(ns) / 1e6) + " ms";
  return short_number(static_cast<double>(ns) / 1e9) + " s";
}

const TimelineEntry* first_finding(const std::vector<TimelineEntry>& entries) {
  const TimelineEntry* first = nullptr;
  for (const TimelineEntry& entry : entries) {
    if (entry.kind != Kind::kMark || entry.category != TimelineCategory::kFinding) continue;
    if (first == nullptr || entry.start < first->start) first = &entry;
  }
  return first;
}

std::vector<const TimelineEntry*> steps_of(const std::vector<TimelineEntry>& entries,
                                           std::int32_t rank) {
  std::vector<const TimelineEntry*> steps;
  for (const TimelineEntry& entry : entries) {
    if (entry.kind == Kind::kStep && entry.rank == rank) steps.push_back(&entry);
  }
  return steps;
}

/// The first of the steps around `time` that are drawn.
/// Requires: more than kMaxSteps steps.
std::size_t first_drawn(const std::vector<const TimelineEntry*>& steps, std::int64_t time) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]->start <= time) at = i;
  }
  return std::min(at < 3 ? 0 : at - 3, steps.size() - kMaxSteps);
}

/// Where to look: at the first finding, at the end of a hang, else at the beginning.
Excerpt excerpt_of(const std::vector<TimelineEntry>& entries, const Report& report) {
  Excerpt whole;
  for (const TimelineEntry& entry : entries) whole.to = std::max(whole.to, entry.end);
  const TimelineEntry* finding = first_finding(entries);
  const auto steps = steps_of(entries, finding == nullptr ? 0 : finding->rank);
  if (steps.size() <= kMaxSteps) return whole;
  const std::int64_t beginning_or_hang = report.outcome == RunOutcome::kHang ? whole.to : 0;
  const std::size_t first =
      first_drawn(steps, finding == nullptr ? beginning_or_hang : finding->start);
  const std::size_t last = first + kMaxSteps - 1;
  Excerpt excerpt = {.from = first == 0 ? 0 : steps[first]->start,
                     .to = last + 1 == steps.size() ? whole.to : steps[last]->end,
                     .why = {}};
  excerpt.why = "Showing " + std::to_string(kMaxSteps) + " of " + std::to_string(steps.size()) +
                " steps, " + steps[first]->name + " to " + steps[last]->name;
  excerpt.why += finding != nullptr ? ": those around the first finding." : ".";
  return excerpt;
}

/// Ranks that findings name first, then the lowest.
std::vector<std::int32_t> lanes_of(const Report& report, std::int32_t n_ranks) {
  std::vector<std::int32_t> lanes;
  const auto add = [&](std::int32_t rank) {
    const bool known = std::find(lanes.begin(), lanes.end(), rank) != lanes.end();
    if (!known && rank < n_ranks && lanes.size() < kMaxLanes) lanes.push_back(rank);
  };
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) {
      for (const Rank rank : finding.ranks) add(to_int(rank));
      for (const Rank rank : finding.missing) add(to_int(rank));
    }
  }
  for (std::int32_t r = 0; r < n_ranks && lanes.size() < kMaxLanes; ++r) add(r);
  std::sort(lanes.begin(), lanes.end());
  return lanes;
}

std::string class_of_part(const TimelineEntry& entry) {
  if (entry.kind == Kind::kPhase) return entry.name == "snapshot" ? "t-save" : "t-eval";
  if (entry.name == "backward") return "t-backward";
  if (entry.name == "optimizer") return "t-update";
  if (entry.name == "skipped") return "t-skipped";
  return entry.name == "forward" ? "t-forward" : "t-eval";
}

std::string fact_of(const TimelineEntry& entry, std::string_view key) {
  for (const TimelineFact& fact : entry.facts) {
    if (fact.key == key) return fact.value;
  }
  return {};
}

/// Draws the lanes of an excerpt.
class LaneDrawing {
 public:
  LaneDrawing(const Excerpt& excerpt, bool timed, Html& out)
      : excerpt_(excerpt), timed_(timed), out_(out) {
    scale_ = kLaneWidth / static_cast<double>(std::max<std::int64_t>(1, excerpt.to - excerpt.from));
  }

  void draw(std::int32_t rank, const std::vector<const TimelineEntry*>& entries, double top) {
    top_ = top;
    free_.fill(excerpt_.from);
    const std::string name = "rank " + std::to_string(rank);
    out_.open("g",
              {{"role", "img"},
               {"tabindex", "0"},
               {"aria-label",
                name + ": " + counted(static_cast<std::int64_t>(entries.size()), "entry") +
                    " drawn, listed in the table below"}});
    out_.element("text", name, {{"x", "0"}, {"y", pixels(top + 26)}, {"class", "lane"}});
    line(kLaneLabels, kLaneLabels + kLaneWidth, top + kLaneHeight - 2, "grid");
    for (const Kind kind : {Kind::kStep, Kind::kPhase, Kind::kPart, Kind::kCall, Kind::kMark}) {
      for (const TimelineEntry* entry : entries) {
        if (entry->kind == kind) draw_entry(*entry);
      }
    }
    out_.close("g");
  }

  void draw_axis(double y) {
    for (int i = 0; i <= 4; ++i) {
      const std::int64_t span = excerpt_.to - excerpt_.from;
      const std::int64_t time = excerpt_.from + span / 4 * i + span % 4 * i / 4;
      out_.element("text",
                   timed_ ? duration_text(time, true) : std::to_string(time / 1000),
                   {{"class", i == 4 ? "tick end" : (i == 0 ? "tick" : "tick middle")},
                    {"x", pixels(x(time))},
                    {"y", pixels(y)}});
    }
    out_.element(
        "text", timed_ ? "time" : "events", {{"class", "tick"}, {"x", "0"}, {"y", pixels(y)}});
  }

 private:
  double x(std::int64_t time) const {
    const std::int64_t inside = std::clamp(time, excerpt_.from, excerpt_.to);
    return kLaneLabels + static_cast<double>(inside - excerpt_.from) * scale_;
  }

  void line(double from, double to, double y, const std::string& look) {
    out_.open("line",
              {{"class", look},
               {"x1", pixels(from)},
               {"x2", pixels(to)},
               {"y1", pixels(y)},
               {"y2", pixels(y)}});
    out_.close("line");
  }

  std::string caption(const TimelineEntry& entry) const {
    std::string text = entry.name;
    if (entry.end > entry.start) text += ", " + duration_text(entry.end - entry.start, timed_);
    if (!entry.status.empty()) text += ", " + entry.status;
    for (const std::string_view key : {"count", "site", "detail", "text", "value"}) {
      const std::string value = fact_of(entry, key);
      if (!value.empty()) text += ", " + (key == "text" ? "" : std::string(key) + " ") + value;
    }
    return text;
  }

  void bar(const TimelineEntry& entry, double y, double height, const std::string& look) {
    out_.open("rect",
              {{"class", look},
               {"x", pixels(x(entry.start))},
               {"y", pixels(y)},
               {"width", pixels(std::max(1.0, x(entry.end) - x(entry.start)))},
               {"height", pixels(height)}});
    out_.element("title", caption(entry)).close("rect");
  }

  void draw_entry(const TimelineEntry& entry) {
    switch (entry.kind) {
      case Kind::kStep:
        draw_step(entry);
        break;
      case Kind::kPhase:
      case Kind::kPart:
        bar(entry, top_ + 13, 16, class_of_part(entry));
        break;
      case Kind::kCall:
        draw_call(entry);
        break;
      case Kind::kMark:
        draw_mark(entry);
        break;
      case Kind::kWait:
        break;  // Its call says it.
    }
  }

  void draw_step(const TimelineEntry& entry) {
    const double left = x(entry.start);
    const double right = x(entry.end);
    line(left + 1, std::max(left + 1, right - 1), top_ + 11, "step");
    if (right - left < 44) return;
    out_.element(
        "text", entry.name, {{"class", "tick"}, {"x", pixels(left + 2)}, {"y", pixels(top_ + 8)}});
  }

  /// Calls in flight at the same time lie below each other, as far as there is room.
  void draw_call(const TimelineEntry& entry) {
    std::size_t row = 0;
    while (row + 1 < kCallRows && free_[row] > entry.start) ++row;
    free_[row] = entry.end;
    std::string look = entry.category == TimelineCategory::kBucket ? "t-bucket" : "t-call";
    if (entry.blocks) look += " blocks";
    if (entry.failed) look += " failed";
    bar(entry, top_ + 31 + static_cast<double>(row) * 5, 4, look);
  }

  void draw_mark(const TimelineEntry& entry) {
    const bool ended = entry.category == TimelineCategory::kEnd;
    if (ended && !entry.failed) return;
    const bool loud = entry.category == TimelineCategory::kFinding ||
                      entry.category == TimelineCategory::kFault ||
                      entry.category == TimelineCategory::kTouch || ended;
    const double at = x(entry.start);
    std::string look = "m-quiet";
    if (loud) look = entry.category == TimelineCategory::kFinding ? "m-finding" : "m-fault";
    const double up = top_ + (loud ? 12 : 24);
    // A finding is a triangle, whatever else went wrong a diamond, the rest a small one.
    const double size = loud ? 7 : 3;
    const std::string tip = pixels(at) + "," + pixels(up);
    const std::string left = pixels(at - size) + "," + pixels(up + size);
    const std::string right = pixels(at + size) + "," + pixels(up + size);
    const std::string low = pixels(at) + "," + pixels(up + 2 * size);
    std::string points = tip + " " + right + " " + low + " " + left;
    if (look == "m-finding") {
      const std::string base = "," + pixels(up + 2 * size);
      points = tip + " " + pixels(at + size) + base + " " + pixels(at - size) + base;
    }
    out_.open("polygon", {{"class", look}, {"points", points}});
    out_.element("title", caption(entry)).close("polygon");
  }

  Excerpt excerpt_;
  bool timed_;
  Html& out_;
  double scale_ = 1;
  double top_ = 0;
  std::array<std::int64_t, kCallRows> free_{};
};

void write_timeline_key(Html& out) {
  constexpr std::array<std::pair<const char*, const char*>, 9> kKeys = {
      {{"t-forward", "forward"},
       {"t-backward", "backward"},
       {"t-update", "optimizer"},
       {"t-eval", "evaluation"},
       {"t-save", "snapshot"},
       {"t-bucket", "bucket in flight"},
       {"t-call", "other call in flight"},
       {"t-call blocks", "call that blocks its rank"},
       {"t-call failed", "failed or never completed"}}};
  out.open("ul", {{"class", "legend"}});
  for (const auto& [look, meaning] : kKeys) {
    out.open("li").open("svg", {{"width", "18"}, {"height", "12"}, {"aria-hidden", "true"}});
    out.open("rect", {{"class", look}, {"x", "1"}, {"y", "1"}, {"width", "16"}, {"height", "10"}});
    out.close("rect").close("svg").text(meaning).close("li");
  }
  constexpr std::array<std::array<const char*, 3>, 2> kMarks = {
      {{"m-finding", "8,0 14,12 2,12", "finding"},
       {"m-fault", "8,0 14,6 8,12 2,6", "fault, or a bad end"}}};
  for (const auto& mark : kMarks) {
    out.open("li").open("svg", {{"width", "18"}, {"height", "13"}, {"aria-hidden", "true"}});
    out.open("polygon", {{"class", mark[0]}, {"points", mark[1]}});
    out.close("polygon").close("svg").text(mark[2]).close("li");
  }
  out.close("ul");
}

/// What a rank did in all, for the table.
struct LaneTotals {
  std::int64_t n_steps = 0;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t update = 0;
  std::int64_t phases = 0;
  std::int64_t blocked = 0;
  std::int64_t n_calls = 0;
  std::int64_t n_incomplete = 0;
  std::string marks;

  void add(const TimelineEntry& entry) {
    const std::int64_t span = entry.end - entry.start;
    n_steps += entry.kind == Kind::kStep ? 1 : 0;
    phases += entry.kind == Kind::kPhase ? span : 0;
    blocked += entry.kind == Kind::kWait ? span : 0;
    if (entry.kind == Kind::kPart) add_part(entry.name, span);
    if (entry.kind == Kind::kCall) {
      ++n_calls;
      n_incomplete += entry.failed ? 1 : 0;
    }
    const bool loud = entry.category == TimelineCategory::kFault ||
                      entry.category == TimelineCategory::kTouch ||
                      (entry.category == TimelineCategory::kEnd && entry.failed);
    if (entry.kind == Kind::kMark && loud && marks.size() < 200) {
      marks += (marks.empty() ? "" : "; ") + entry.name;
    }
  }

  void add_part(const std::string& name, std::int64_t span) {
    if (name == "forward") forward += span;
    if (name == "backward") backward += span;
    if (name == "optimizer") update += span;
  }
};

void write_totals(const TimelineEntries& drawn, std::int32_t n_ranks, Html& out) {
  std::vector<LaneTotals> ranks(static_cast<std::size_t>(n_ranks));
  for (const TimelineEntry& entry : drawn.entries) {
    ranks[static_cast<std::size_t>(entry.rank)].add(entry);
  }
  out.open_details("The timeline as a table");
  out.open_table("What each rank did in the whole run",
                 {"Rank",
                  "Steps",
                  "Forward",
                  "Backward",
                  "Optimizer",
                  "Evaluation, snapshots",
                  "Blocked in calls",
                  "Calls",
                  "Failed or open",
                  "Faults and ends"});
  for (std::size_t r = 0; r < std::min(ranks.size(), kMaxTimelineRows); ++r) {
    const LaneTotals& totals = ranks[r];
    const auto span = [&](std::int64_t ns) { return duration_text(ns, drawn.timed); };
    out.row({"rank " + std::to_string(r),
             std::to_string(totals.n_steps),
             span(totals.forward),
             span(totals.backward),
             span(totals.update),
             span(totals.phases),
             span(totals.blocked),
             std::to_string(totals.n_calls),
             std::to_string(totals.n_incomplete),
             totals.marks});
  }
  out.close_table();
  if (ranks.size() > kMaxTimelineRows) {
    out.element("p",
                "Showing the first " + std::to_string(kMaxTimelineRows) + " of " +
                    std::to_string(ranks.size()) + " ranks.",
                {{"class", "thinned"}});
  }
  out.close("details");
}

/// The entries of each lane that lie in the excerpt; the excerpt ends earlier if they are too many.
std::map<std::int32_t, std::vector<const TimelineEntry*>> shapes_of(
    const std::vector<TimelineEntry>& entries,
    const std::vector<std::int32_t>& lanes,
    Excerpt& excerpt) {
  std::vector<const TimelineEntry*> shapes;
  for (const TimelineEntry& entry : entries) {
    if (!std::binary_search(lanes.begin(), lanes.end(), entry.rank)) continue;
    if (entry.end >= excerpt.from && entry.start <= excerpt.to) shapes.push_back(&entry);
  }
  std::stable_sort(shapes.begin(), shapes.end(), [](const auto* a, const auto* b) {
    return a->start < b->start;
  });
  if (shapes.size() > kMaxShapes) {
    excerpt.to = std::max(shapes[kMaxShapes]->start, excerpt.from + 1);
    shapes.resize(kMaxShapes);
    excerpt.why += (excerpt.why.empty() ? "" : " ") + std::string("The picture ends after ") +
                   std::to_string(kMaxShapes) + " shapes.";
  }
  std::map<std::int32_t, std::vector<const TimelineEntry*>> by_lane;
  for (const TimelineEntry* shape : shapes) by_lane[shape->rank].push_back(shape);
  return by_lane;
}

}  // namespace

void write_timeline(const RunView& run, const std::string& id, Html& out) {
  out.open_section(id + "-timeline", "Timeline");
  const std::int32_t n_ranks = run.trace->n_ranks();
  const TimelineEntries drawn = timeline_entries(*run.trace, timeline_notes(*run.report));
  const std::vector<std::int32_t> lanes = lanes_of(*run.report, n_ranks);
  Excerpt excerpt = excerpt_of(drawn.entries, *run.report);
  const auto by_lane = shapes_of(drawn.entries, lanes, excerpt);
  out.element("p",
              drawn.timed ? "Virtual or recorded time runs to the right."
                          : "The run has no times: an event takes one unit, and calls end after "
                            "the last rank's post.");
  out.open_scroll("Timeline of the ranks");
  out.open_picture("Ranks over time; the table below has the same data",
                   kLaneLabels + kLaneWidth + 30,
                   static_cast<double>(lanes.size()) * kLaneHeight + 22);
  LaneDrawing drawing(excerpt, drawn.timed, out);
  double top = 0;
  for (const std::int32_t lane : lanes) {
    const auto entries = by_lane.find(lane);
    drawing.draw(lane,
                 entries == by_lane.end() ? std::vector<const TimelineEntry*>{} : entries->second,
                 top);
    top += kLaneHeight;
  }
  drawing.draw_axis(top + 14);
  out.close("svg").close("div");
  write_timeline_key(out);
  if (static_cast<std::int32_t>(lanes.size()) < n_ranks) {
    excerpt.why += (excerpt.why.empty() ? "" : " ") + std::string("Showing ") +
                   std::to_string(lanes.size()) + " of " + std::to_string(n_ranks) +
                   " ranks, those that findings name first.";
  }
  if (!excerpt.why.empty()) out.element("p", excerpt.why, {{"class", "thinned"}});
  write_totals(drawn, n_ranks, out);
  out.close("section");
}

}  // namespace lockstep::page
