#include "lockstep/formats/perfetto.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "lockstep/formats/json_text.h"

namespace lockstep {

namespace {

constexpr std::int32_t kTraining = 0;
constexpr std::int32_t kWaits = 1;

/// One line of the picture.
struct Line {
  char phase = 'X';
  std::int64_t time = 0;
  std::int64_t span = 0;
  const TimelineEntry* entry = nullptr;
  std::string id = {};
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

std::string facts_json(const Line& line) {
  // The end of a call says how it ended; what it was is said where it begins.
  if (line.phase == 'e') return "\"status\":" + json_quoted(line.entry->status);
  std::string out;
  for (const TimelineFact& fact : line.entry->facts) {
    if (!out.empty()) out += ',';
    out += json_quoted(fact.key) + ":" + (fact.is_text ? json_quoted(fact.value) : fact.value);
  }
  return out;
}

std::string_view category_of(const TimelineEntry& entry) {
  if (entry.kind == TimelineEntry::Kind::kWait) return "wait";
  return name_of(entry.category);
}

std::string json_of(const Line& line) {
  const TimelineEntry& entry = *line.entry;
  const std::int32_t thread = entry.kind == TimelineEntry::Kind::kWait ? kWaits : kTraining;
  std::string out = "{\"ph\":\"";
  out += line.phase;
  out += "\",\"pid\":" + std::to_string(entry.rank) + ",\"tid\":" + std::to_string(thread) +
         ",\"ts\":" + microseconds(line.time);
  if (line.phase == 'X') out += ",\"dur\":" + microseconds(line.span);
  if (line.phase == 'i') out += ",\"s\":\"t\"";
  if (!line.id.empty()) out += ",\"id\":" + json_quoted(line.id);
  out += ",\"cat\":" + json_quoted(category_of(entry)) + ",\"name\":" + json_quoted(entry.name);
  return out + ",\"args\":{" + facts_json(line) + "}}";
}

std::vector<Line> lines_of(const std::vector<TimelineEntry>& entries, TimelineCounts& counts) {
  std::vector<Line> lines;
  lines.reserve(entries.size() * 2);
  for (const TimelineEntry& entry : entries) {
    if (entry.kind == TimelineEntry::Kind::kMark) {
      ++counts.n_marks;
      lines.push_back({.phase = 'i', .time = entry.start, .span = 0, .entry = &entry});
    } else if (entry.kind == TimelineEntry::Kind::kCall) {
      const std::string id = std::to_string(entry.rank) + "." + std::to_string(counts.n_calls++);
      lines.push_back({.phase = 'b', .time = entry.start, .span = 0, .entry = &entry, .id = id});
      lines.push_back({.phase = 'e', .time = entry.end, .span = 0, .entry = &entry, .id = id});
    } else {
      ++counts.n_slices;
      lines.push_back(
          {.phase = 'X', .time = entry.start, .span = entry.end - entry.start, .entry = &entry});
    }
  }
  // Of slices that begin together the longer one comes first: it holds the other.
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tuple(a.time, -a.span) < std::tuple(b.time, -b.span);
  });
  return lines;
}

std::string track_names(std::int32_t n_ranks) {
  std::string out;
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
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
  return out;
}

}  // namespace

Timeline render_perfetto(const MemoryTrace& trace, std::span<const TimelineNote> notes) {
  const TimelineEntries drawn = timeline_entries(trace, notes);
  Timeline timeline;
  timeline.json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + track_names(trace.n_ranks());
  for (const Line& line : lines_of(drawn.entries, timeline.counts)) {
    timeline.json += json_of(line) + ",\n";
  }
  if (timeline.json.ends_with(",\n")) timeline.json.resize(timeline.json.size() - 2);
  timeline.json += "\n]}\n";
  return timeline;
}

}  // namespace lockstep
