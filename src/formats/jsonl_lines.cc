#include "lockstep/formats/detail/jsonl_lines.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/formats/detail/field_reader.h"

namespace lockstep::detail {

namespace {

// Half the range, so that the time between any two events fits; the same for other large numbers.
constexpr std::int64_t kMostTime = std::numeric_limits<std::int64_t>::max() / 2;

template <std::size_t... kIndex>
std::optional<EventBody> body_of_kind(EventKind kind, std::index_sequence<kIndex...> /*all*/) {
  std::optional<EventBody> body;
  const auto consider = [&](EventBody candidate) {
    if (!body && kind_of(candidate) == kind) body = std::move(candidate);
  };
  (consider(EventBody(std::in_place_index<kIndex>)), ...);
  consider(StateEvent{.kind = StateKind::kBuffer});
  consider(StateEvent{.kind = StateKind::kOptimizer});
  consider(StateEvent{.kind = StateKind::kAuxiliary});
  return body;
}

/// Ends of files that are older than `reason` tell it by how their detail begins.
EndReason reason_told_by(std::string_view detail) {
  if (detail.starts_with("livelock")) return EndReason::kLivelock;
  const bool of_another =
      detail.starts_with("rank ") && detail.find(" failed: ") != std::string_view::npos;
  return of_another ? EndReason::kOtherFailed : EndReason::kNone;
}

void read_text(FieldReader& reader, const char* key, std::string& value) {
  const Json* member = reader.find(key);
  if (member != nullptr) value = reader.to_text(key, *member);
}

void read_position(FieldReader& reader, Position& at) {
  const Json* list = reader.find_list("at");
  std::int32_t* const fields[] = {
      &at.attempt, &at.wrapper, &at.sync, &at.micro, &at.opt, &at.epoch};
  if (list == nullptr || list->size() != std::size(fields)) {
    return reader.fail("at", "'at' is [attempt, wrapper, sync, micro, opt, epoch]");
  }
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    *fields[i] = reader.to_integer<std::int32_t>("at", (*list)[i]);
  }
}

void complete(const FieldReader& reader, const NameTable& names, EndEvent& end) {
  const bool taken_down = end.outcome == EndOutcome::kKilled || end.outcome == EndOutcome::kStuck;
  if (!taken_down || reader.find("reason") != nullptr) return;
  end.reason = reason_told_by(names.text(end.detail));
}

Error error_at(const std::string& where, std::size_t column, const std::string& what) {
  return Error{printable(what), where + ":" + std::to_string(column)};
}

}  // namespace

struct JsonlLines::Line {
  Line() = default;  // NOLINT(bugprone-exception-escape): an empty value throws nothing.
  ~Line() = default;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  Line(Line&&) = delete;
  Line& operator=(Line&&) = delete;

  Json object;
  std::optional<FieldReader> reader;

  std::optional<Error> parse(std::string_view text, const std::string& where, NameTable& names) {
    try {
      object = Json::parse(text);
    } catch (const Json::exception& error) {
      const auto* syntax = dynamic_cast<const Json::parse_error*>(&error);
      return error_at(
          where, syntax == nullptr ? 1 : std::max<std::size_t>(syntax->byte, 1), "not valid JSON");
    }
    if (!object.is_object()) return error_at(where, 1, "a line must be a JSON object");
    reader.emplace(object, text, names);
    return std::nullopt;
  }
};

std::int64_t most_ranks(std::size_t n_files) {
  constexpr std::int64_t kOfFewFiles = 100'000;
  constexpr std::int64_t kOfAny = 1'000'000;
  return std::clamp(100 * static_cast<std::int64_t>(n_files), kOfFewFiles, kOfAny);
}

JsonlLines::JsonlLines(std::shared_ptr<NameTable> names, std::int64_t n_ranks_most)
    : names_(std::move(names)), n_ranks_most_(n_ranks_most), line_(std::make_unique<Line>()) {}

JsonlLines::~JsonlLines() = default;

Result<std::int32_t> JsonlLines::header(std::string_view line, const std::string& where) {
  if (const auto error = line_->parse(line, where, *names_)) return *error;
  FieldReader& reader = *line_->reader;
  std::int32_t file_rank = -1;
  read_header(reader, file_rank);
  if (!reader.error().empty()) return error_at(where, reader.column(), reader.error());
  return file_rank;
}

Result<Event> JsonlLines::event(std::string_view line,
                                const std::string& where,
                                std::int32_t file_rank) {
  if (const auto error = line_->parse(line, where, *names_)) return *error;
  FieldReader& reader = *line_->reader;
  Event event;
  read_event(reader, file_rank, event);
  if (!reader.error().empty()) return error_at(where, reader.column(), reader.error());
  return event;
}

void JsonlLines::accept(const Event& event) {
  Last& last = last_[to_index(event.rank)];
  last.index = event.index;
  last.known = true;
  last.is_value = std::holds_alternative<ValueEvent>(event.body);
  last.new_file = false;
}

void JsonlLines::read_header(FieldReader& reader, std::int32_t& file_rank) {
  std::int32_t format = 0;
  reader.integer("lockstep_trace", format);
  if (format != 1) reader.fail("lockstep_trace", "not a trace header of format 1");
  TraceHeader header;
  read_text(reader, "run", header.run_id);
  read_text(reader, "backend", header.backend);
  read_text(reader, "scenario", header.scenario);
  read_text(reader, "scenario_digest", header.scenario_digest);
  read_text(reader, "library", header.library);
  read_text(reader, "clock", header.clock);
  reader.flag("exact", header.exact);
  reader.flag("watched", header.watched);
  reader.flag("sampled", header.sampled);
  reader.integer("coverage", header.coverage);
  if (header.coverage < 1) reader.fail("coverage", "'coverage' must be 1 or more");
  reader.integer("ranks", header.n_ranks);
  reader.integer("rank", file_rank);
  if (header.n_ranks < 1 || header.n_ranks > n_ranks_most_) {
    reader.fail("ranks",
                "'ranks' must be the size of the world, 1 to " + std::to_string(n_ranks_most_) +
                    " with this many files");
  } else if (file_rank >= header.n_ranks) {
    reader.fail("rank", "the rank is outside the world");
  }
  if (header_ && (header.run_id != header_->run_id || header.n_ranks != header_->n_ranks)) {
    reader.fail("run", "this file is of another run than the first one");
  }
  if (!reader.error().empty()) return;
  if (!header_) header_ = header;
  if (header.clock != header_->clock) header_->clock.clear();
  last_.resize(static_cast<std::size_t>(header.n_ranks));
  if (file_rank >= 0) last_[static_cast<std::size_t>(file_rank)].new_file = true;
}

// A line per field that every event has.  NOLINTNEXTLINE(readability-function-cognitive-complexity)
void JsonlLines::read_event(FieldReader& reader, std::int32_t file_rank, Event& event) {
  std::int32_t rank = file_rank;
  std::int64_t index = -1;
  reader.integer("rank", rank);
  reader.integer("i", index);
  reader.integer("t", event.time.ns);
  if (event.time.ns < -kMostTime || event.time.ns > kMostTime) {
    reader.fail("t", "'t' is a time within 146 years of the start, in nanoseconds");
  }
  if (rank < 0 || rank >= header_->n_ranks || (file_rank >= 0 && rank != file_rank)) {
    reader.fail("rank", "an event of a rank that this file is not about");
  }
  if (index < 0) reader.fail("i", "'i' must number the rank's events from 0");
  read_position(reader, event.at);
  std::string kind;
  read_text(reader, "kind", kind);
  const std::optional<EventKind> known = parse_enum<EventKind>(kind);
  if (!known) return reader.fail("kind", "unknown kind of event '" + kind + "'");
  std::optional<EventBody> body =
      body_of_kind(*known, std::make_index_sequence<std::variant_size_v<EventBody>>());
  event.body = std::move(*body);
  std::visit([&](auto& fields) { visit_fields(reader, fields); }, event.body);
  reader.check_sizes(event.body);
  if (const auto* call = std::get_if<CollectiveEvent>(&event.body);
      call && (call->seq < 0 || call->seq > kMostTime)) {
    reader.fail("seq", "'seq' numbers the calls of a group from 0");
  }
  if (auto* end = std::get_if<EndEvent>(&event.body)) complete(reader, *names_, *end);
  if (!reader.error().empty()) return;
  event.rank = Rank{rank};
  event.index = static_cast<std::uint64_t>(index);
  Last& last = last_[to_index(event.rank)];
  // A process that was started again counts from 0 again; a simulated rank goes on counting.
  if (last.new_file) {
    last.base = last.known && event.index <= last.index ? last.index + 1 : 0;
  }
  event.index += last.base;
  // Values carry the index of the event that they belong to, which follows them.
  const bool follows =
      !last.known || event.index > last.index || (event.index == last.index && last.is_value);
  if (!follows) reader.fail("i", "'i' must grow from line to line");
}

}  // namespace lockstep::detail
