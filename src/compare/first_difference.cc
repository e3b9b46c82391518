#include "lockstep/compare/first_difference.h"

#include <algorithm>
#include <span>
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

/// An event as it is compared, and where it stands in the trace.
struct Compared {
  Event plain;
  std::size_t place = 0;
};

std::vector<Compared> compared(std::span<const Event> events, Timing timing) {
  std::vector<Compared> list;
  for (std::size_t i = 0; i < events.size(); ++i) {
    Compared one{events[i], i};
    if (timing == Timing::kIgnored) {
      const auto* call = std::get_if<CollectiveEvent>(&events[i].body);
      if (call != nullptr && call->phase == CollectivePhase::kCompleted) continue;
      if (std::holds_alternative<LogEvent>(events[i].body)) continue;
      one.plain.index = list.size();
      one.plain.time = {};
    }
    list.push_back(one);
  }
  return list;
}

std::string plain_line(const std::vector<Compared>& list, std::size_t i, const MemoryTrace& trace) {
  return i < list.size() ? to_json_line(list[i].plain, trace.names()) : std::string();
}

std::optional<Difference> difference_on(Rank rank,
                                        const MemoryTrace& left,
                                        const MemoryTrace& right,
                                        Timing timing) {
  const std::vector<Compared> a = compared(left.events(rank), timing);
  const std::vector<Compared> b = compared(right.events(rank), timing);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (plain_line(a, i, left) == plain_line(b, i, right)) continue;
    const Compared& one = i < a.size() ? a[i] : b[i];
    std::string text = "sync " + std::to_string(one.plain.at.sync) + ", event " +
                       std::to_string(one.place) + " (" +
                       std::string(name_of(kind_of(one.plain.body))) + ")";
    if (i < a.size() && i < b.size()) {
      const std::string tensor = differing_tensor(a[i].plain, left, b[i].plain);
      if (!tensor.empty()) text += ", tensor `" + tensor + "`";
    }
    const std::size_t left_place = i < a.size() ? a[i].place : left.events(rank).size();
    const std::size_t right_place = i < b.size() ? b[i].place : right.events(rank).size();
    text.append(", rank ").append(std::to_string(to_int(rank)));
    text.append("\n  < ").append(line_of(left.events(rank), left_place, left));
    text.append("\n  > ").append(line_of(right.events(rank), right_place, right));
    return Difference{one.plain.at, rank, std::move(text)};
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
