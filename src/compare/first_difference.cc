#include "lockstep/compare/first_difference.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/compare/detail/places.h"
#include "lockstep/formats/jsonl.h"

namespace lockstep::cli {
namespace {

/// The digests of an event with the layout that names them.
struct Digests {
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> words;
};

Digests digests_of(const Event& event) {
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) return {grad->layout, grad->digests};
  if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    return {state->layout, state->digests};
  }
  return {};
}

/// The first tensor whose digests differ, or the one whose values these are, or empty.
std::string differing_tensor(const Event& left, const MemoryTrace& left_trace, const Event& right) {
  const auto* values = std::get_if<ValueEvent>(&left.body);
  if (values != nullptr && std::holds_alternative<ValueEvent>(right.body)) {
    return std::string(left_trace.names().text(values->tensor));
  }
  const Digests a = digests_of(left);
  const Digests b = digests_of(right);
  const std::span<const NameId> names = left_trace.names().layout(a.layout);
  for (std::size_t i = 0; i < std::min({a.words.size(), b.words.size(), names.size()}); ++i) {
    if (a.words[i] != b.words[i]) return std::string(left_trace.names().text(names[i]));
  }
  return {};
}

/// "`lr` is 0.001 against 0.002": the first option that two events have with different values, or empty.
std::string differing_option(const Event& left,
                             const MemoryTrace& left_trace,
                             const Event& right,
                             const MemoryTrace& right_trace) {
  const auto* a = std::get_if<OptimizerEvent>(&left.body);
  const auto* b = std::get_if<OptimizerEvent>(&right.body);
  if (a == nullptr || b == nullptr) return {};
  const std::span<const NameId> names = left_trace.names().layout(a->options);
  const std::span<const NameId> others = right_trace.names().layout(b->options);
  const std::size_t n = std::min({names.size(), others.size(), a->values.size(), b->values.size()});
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view name = left_trace.names().text(names[i]);
    if (name != right_trace.names().text(others[i])) return {};
    if (std::bit_cast<std::uint64_t>(a->values[i]) == std::bit_cast<std::uint64_t>(b->values[i]))
      continue;
    return "`" + std::string(name) + "` is " + exact(a->values[i]) + " against " +
           exact(b->values[i]);
  }
  return {};
}

std::string line_of(std::span<const Event> events, std::size_t i, const MemoryTrace& trace) {
  return i < events.size() ? to_json_line(events[i], trace.names()) : "(no more events)";
}

/// An event as it is compared, and where it stands in the trace.
struct Compared {
  Event plain;
  std::size_t place = 0;
};

/// What of two traces is compared.
struct Manner {
  Timing timing = Timing::kIgnored;
  bool values = false;  ///< Both recorded values.
};

bool has_values(const MemoryTrace& trace) {
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(static_cast<Rank>(r))) {
      if (std::holds_alternative<ValueEvent>(event.body)) return true;
    }
  }
  return false;
}

bool counts(const Event& event, const Manner& manner) {
  if (std::holds_alternative<ValueEvent>(event.body)) return manner.values;
  if (manner.timing == Timing::kCompared) return true;
  const auto* call = std::get_if<CollectiveEvent>(&event.body);
  if (call != nullptr && call->phase == CollectivePhase::kCompleted) return false;
  return !std::holds_alternative<LogEvent>(event.body);
}

std::vector<Compared> compared(std::span<const Event> events, const Manner& manner) {
  std::vector<Compared> list;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!counts(events[i], manner)) continue;
    Compared one{events[i], i};
    if (manner.timing == Timing::kIgnored) {
      one.plain.index = list.size();
      one.plain.time = {};
      detail::forget_places(one.plain);
    }
    list.push_back(one);
  }
  return list;
}

std::string plain_line(const std::vector<Compared>& list, std::size_t i, const MemoryTrace& trace) {
  return i < list.size() ? to_json_line(list[i].plain, trace.names()) : std::string();
}

/// One rank of a trace, as it is compared.
struct Side {
  const MemoryTrace& trace;
  std::vector<Compared> list;

  /// Where entry `i` stands among the rank's events; their number: it has no such entry.
  std::size_t place(std::size_t i, Rank rank) const {
    return i < list.size() ? list[i].place : trace.events(rank).size();
  }
};

/// The difference at entry `i` of both.
Difference difference_at(std::size_t i, const Side& left, const Side& right, Rank rank) {
  const bool both = i < left.list.size() && i < right.list.size();
  const Compared& one = i < left.list.size() ? left.list[i] : right.list[i];
  const std::size_t left_place = left.place(i, rank);
  const std::size_t right_place = right.place(i, rank);
  Difference found{
      .at = one.plain.at, .rank = rank, .event = std::string(name_of(kind_of(one.plain.body)))};
  std::string option;
  if (both) {
    const Event& a = left.list[i].plain;
    const Event& b = right.list[i].plain;
    found.tensor = differing_tensor(a, left.trace, b);
    option = differing_option(a, left.trace, b, right.trace);
  }
  found.text = "sync " + std::to_string(one.plain.at.sync) + ", event " +
               std::to_string(one.place) + " (" + found.event + ")";
  if (!found.tensor.empty()) found.text += ", tensor `" + found.tensor + "`";
  found.text.append(", rank ").append(std::to_string(to_int(rank)));
  if (!option.empty()) found.text.append(": ").append(option);
  found.text.append("\n  < ").append(line_of(left.trace.events(rank), left_place, left.trace));
  found.text.append("\n  > ").append(line_of(right.trace.events(rank), right_place, right.trace));
  if (!found.tensor.empty()) {
    found.distance = recorded_distance(
        {&left.trace, rank, left_place}, {&right.trace, rank, right_place}, found.tensor);
    found.text.append("\n  `").append(found.tensor).append("`: ").append(found.distance->text);
  }
  return found;
}

std::optional<Difference> difference_on(Rank rank,
                                        const MemoryTrace& left,
                                        const MemoryTrace& right,
                                        const Manner& manner) {
  const Side a{left, compared(left.events(rank), manner)};
  const Side b{right, compared(right.events(rank), manner)};
  for (std::size_t i = 0; i < std::max(a.list.size(), b.list.size()); ++i) {
    if (plain_line(a.list, i, left) == plain_line(b.list, i, right)) continue;
    return difference_at(i, a, b, rank);
  }
  return std::nullopt;
}

bool earlier(const Difference& a, const Difference& b) {
  const auto key = [](const Difference& d) {
    return std::tuple(d.at.attempt, d.at.sync, d.at.opt, to_int(d.rank));
  };
  return key(a) < key(b);
}

}  // namespace

std::optional<Difference> first_difference(const MemoryTrace& left,
                                           const MemoryTrace& right,
                                           Timing timing) {
  std::optional<Difference> first;
  const Manner manner{timing, has_values(left) && has_values(right)};
  const std::int32_t n_ranks = std::min(left.n_ranks(), right.n_ranks());
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    std::optional<Difference> here = difference_on(static_cast<Rank>(r), left, right, manner);
    if (here && (!first || earlier(*here, *first))) first = std::move(here);
  }
  if (!first && left.n_ranks() != right.n_ranks()) {
    first = Difference{.rank = static_cast<Rank>(n_ranks),
                       .text = std::to_string(left.n_ranks()) + " ranks against " +
                               std::to_string(right.n_ranks())};
  }
  return first;
}

}  // namespace lockstep::cli
