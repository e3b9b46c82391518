#include "lockstep/compare/first_difference.h"

#include <algorithm>
#include <tuple>
#include <vector>

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

/// The first tensor whose digests differ, or empty.
std::string differing_tensor(const Event& left, const MemoryTrace& left_trace, const Event& right) {
  const Digests a = digests_of(left);
  const Digests b = digests_of(right);
  const std::span<const NameId> names = left_trace.names().layout(a.layout);
  for (std::size_t i = 0; i < std::min({a.words.size(), b.words.size(), names.size()}); ++i) {
    if (a.words[i] != b.words[i]) return std::string(left_trace.names().text(names[i]));
  }
  return {};
}

std::string line_of(std::span<const Event> events, std::size_t i, const MemoryTrace& trace) {
  return i < events.size() ? to_json_line(events[i], trace.names()) : "(no more events)";
}

/// The rank's events as they are compared.
std::vector<Event> compared(const MemoryTrace& trace, Rank rank, Timing timing) {
  const std::span<const Event> all = trace.events(rank);
  std::vector<Event> events(all.begin(), all.end());
  if (timing == Timing::kCompared) return events;
  std::erase_if(events, [](const Event& event) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    return std::holds_alternative<LogEvent>(event.body) ||
           (call != nullptr && call->phase == CollectivePhase::kCompleted);
  });
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].index = i;
    events[i].time = {};
  }
  return events;
}

std::optional<Difference> difference_on(Rank rank,
                                        const MemoryTrace& left,
                                        const MemoryTrace& right,
                                        Timing timing) {
  const std::vector<Event> a = compared(left, rank, timing);
  const std::vector<Event> b = compared(right, rank, timing);
  const std::size_t n = std::max(a.size(), b.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::string left_line = line_of(a, i, left);
    const std::string right_line = line_of(b, i, right);
    if (left_line == right_line) continue;
    const Event& event = i < a.size() ? a[i] : b[i];
    std::string text = "sync " + std::to_string(event.at.sync) + ", event " + std::to_string(i) +
                       " (" + std::string(kind_of(event.body)) + ")";
    if (i < a.size() && i < b.size()) {
      const std::string tensor = differing_tensor(a[i], left, b[i]);
      if (!tensor.empty()) text += ", tensor `" + tensor + "`";
    }
    text.append(", rank ").append(std::to_string(to_int(rank)));
    text.append("\n  < ").append(left_line).append("\n  > ").append(right_line);
    return Difference{event.at, rank, std::move(text)};
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
  const std::int32_t n_ranks = std::min(left.n_ranks(), right.n_ranks());
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    std::optional<Difference> here = difference_on(static_cast<Rank>(r), left, right, timing);
    if (here && (!first || earlier(*here, *first))) first = std::move(here);
  }
  if (!first && left.n_ranks() != right.n_ranks()) {
    first = Difference{
        {},
        static_cast<Rank>(n_ranks),
        std::to_string(left.n_ranks()) + " ranks against " + std::to_string(right.n_ranks())};
  }
  return first;
}

}  // namespace lockstep::cli
