#include "lockstep/compare/compare.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "lockstep/compare/detail/places.h"
#include "lockstep/formats/jsonl.h"

namespace lockstep {

namespace {

/// What differs between runs, or what not every recorder can see, for no reason that matters.
bool is_left_out(const EventBody& body) {
  const auto* snapshot = std::get_if<SnapshotEvent>(&body);
  if (snapshot != nullptr && is_of_the_program(snapshot->action)) return true;
  return std::holds_alternative<ValueEvent>(body) || std::holds_alternative<FaultEvent>(body) ||
         std::holds_alternative<LogEvent>(body) || std::holds_alternative<EnvironmentEvent>(body) ||
         std::holds_alternative<ExchangeEvent>(body) || std::holds_alternative<LoneEvent>(body) ||
         std::holds_alternative<DataEvent>(body) || std::holds_alternative<InputEvent>(body);
}

bool is_completion(const EventBody& body) {
  const auto* collective = std::get_if<CollectiveEvent>(&body);
  return collective != nullptr && collective->phase != CollectivePhase::kPosted;
}

/// Distinguishes the collectives of one rank.
auto number_of(const Event& event) {
  const auto& collective = std::get<CollectiveEvent>(event.body);
  const Signature& signature = collective.signature;
  return std::tuple(collective.group, signature.op, signature.peer, signature.tag, collective.seq);
}

/// One rank's events, apart into what its program did and what came back to it.
struct RankRun {
  std::vector<const Event*> program;
  std::vector<const Event*> completions;  // In the order of their numbers.
};

RankRun run_of(const MemoryTrace& trace, Rank rank) {
  RankRun run;
  for (const Event& event : trace.events(rank)) {
    if (is_left_out(event.body)) continue;
    (is_completion(event.body) ? run.completions : run.program).push_back(&event);
  }
  std::stable_sort(run.completions.begin(),
                   run.completions.end(),
                   [](const auto* a, const auto* b) { return number_of(*a) < number_of(*b); });
  return run;
}

/// The event as a line without what may differ.
std::string line_of(const Event& event, const NameTable& names) {
  Event plain = event;
  plain.index = 0;
  plain.time = {};
  detail::forget_places(plain);
  const auto* collective = std::get_if<CollectiveEvent>(&plain.body);
  if (collective != nullptr && collective->phase != CollectivePhase::kPosted) plain.at = {};
  return to_json_line(plain, names);
}

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

std::string differing_tensor(const Event& left, const NameTable& names, const Event& right) {
  const Digests a = digests_of(left);
  const Digests b = digests_of(right);
  const std::span<const NameId> tensors = names.layout(a.layout);
  for (std::size_t i = 0; i < std::min({a.words.size(), b.words.size(), tensors.size()}); ++i) {
    if (a.words[i] != b.words[i]) return std::string(names.text(tensors[i]));
  }
  return {};
}

std::string name_of_event(const Event& event) {
  std::string name;
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    name = std::string("grad ") + std::string(name_of(grad->point));
  } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    name = std::string(name_of(state->kind)) + " " + std::string(name_of(state->point));
  } else if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
    name = "collective " + std::string(name_of(collective->phase));
  } else {
    name = name_of(kind_of(event.body));
  }
  return name;
}

using Lists = std::pair<const std::vector<const Event*>&, const std::vector<const Event*>&>;

/// Two events that should be one; null: that side has no more.
struct EventPair {
  const Event* left = nullptr;
  const Event* right = nullptr;
};

std::optional<Divergence> difference_of(const EventPair& pair,
                                        const NameTable& left,
                                        const NameTable& right) {
  Divergence found;
  if (pair.left != nullptr) found.left = line_of(*pair.left, left);
  if (pair.right != nullptr) found.right = line_of(*pair.right, right);
  if (found.left == found.right) return std::nullopt;
  if (pair.left != nullptr && pair.right != nullptr) {
    found.tensor = differing_tensor(*pair.left, left, *pair.right);
  }
  for (const Event* event : {pair.right, pair.left}) {
    if (event == nullptr) continue;
    found.at = event->at;
    found.rank = event->rank;
    found.event = name_of_event(*event);
  }
  return found;
}

std::optional<Divergence> divergence_of(const Lists& lists,
                                        const MemoryTrace& left,
                                        const MemoryTrace& right) {
  const auto& [a, b] = lists;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const EventPair pair = {i < a.size() ? a[i] : nullptr, i < b.size() ? b[i] : nullptr};
    std::optional<Divergence> found = difference_of(pair, left.names(), right.names());
    if (found) return found;
  }
  return std::nullopt;
}

bool is_earlier(const Divergence& a, const Divergence& b) {
  const auto key = [](const Divergence& d) {
    return std::tuple(d.at.attempt, d.at.sync, d.at.opt);
  };
  return key(a) < key(b);
}

}  // namespace

Comparison compare_runs(const MemoryTrace& left, const MemoryTrace& right) {
  Comparison comparison;
  // What a rank did is the cause, what came back to it the effect: programs first.
  std::optional<Divergence> of_programs;
  std::optional<Divergence> of_completions;
  const auto keep = [](std::optional<Divergence> found, std::optional<Divergence>& first) {
    if (found && (!first || is_earlier(*found, *first))) first = std::move(found);
  };
  for (std::int32_t r = 0; r < std::max(left.n_ranks(), right.n_ranks()); ++r) {
    const RankRun a = run_of(left, Rank{r});
    const RankRun b = run_of(right, Rank{r});
    comparison.n_events += static_cast<std::int64_t>(a.program.size() + a.completions.size());
    keep(divergence_of({a.program, b.program}, left, right), of_programs);
    keep(divergence_of({a.completions, b.completions}, left, right), of_completions);
  }
  comparison.first = of_programs ? std::move(of_programs) : std::move(of_completions);
  return comparison;
}

std::string render(const Divergence& divergence,
                   const std::string& left,
                   const std::string& right) {
  const auto line = [](const std::string& text) {
    return text.empty() ? "(no more events)" : text;
  };
  std::string text = "sync " + std::to_string(divergence.at.sync) + ", step " +
                     std::to_string(divergence.at.opt) + ", " + divergence.event;
  if (!divergence.tensor.empty()) text += ", tensor `" + divergence.tensor + "`";
  text += ", rank " + std::to_string(to_int(divergence.rank));
  text += "\n  " + left + ": " + line(divergence.left);
  text += "\n  " + right + ": " + line(divergence.right);
  return text;
}

}  // namespace lockstep
