#include "lockstep/compare/bisect.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "lockstep/compare/detail/digest_tree.h"
#include "lockstep/compare/detail/places.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

/// What a leaf of a tree stands for.
struct Entry {
  static constexpr std::int32_t kWholeEvent = -1;

  const Event* event = nullptr;
  std::int32_t tensor = kWholeEvent;  // Position in the event's list of names.
};

/// The names and digests of an event that has them.
struct NamedDigests {
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> words;
};

NamedDigests named_digests_of(const Event& event) {
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) return {grad->layout, grad->digests};
  if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    return {state->layout, state->digests};
  }
  return {};
}

std::string event_name(const Event& event) {
  std::string name(name_of(kind_of(event.body)));
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    name.append(".").append(name_of(grad->point));
  }
  if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    name.append(".").append(name_of(state->point));
  }
  if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
    name.append(".").append(name_of(collective->phase));
  }
  return name;
}

/// The event without what two equal runs may have different: times, call sites, and digests, which
/// are separate entries.
Event bare(const Event& event) {
  Event copy = event;
  copy.time = {};
  copy.index = 0;
  if (auto* grad = std::get_if<GradEvent>(&copy.body)) {
    grad->digests = {};
    grad->sketches = {};
  }
  if (auto* state = std::get_if<StateEvent>(&copy.body)) state->digests = {};
  detail::forget_places(copy);
  return copy;
}

std::uint64_t digest_of_text(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * kGolden64;
  return mix64(hash) | 1U;
}

/// What a search compares.
class Selection {
 public:
  virtual ~Selection() = default;
  Selection() = default;
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;
  Selection(Selection&&) = delete;
  Selection& operator=(Selection&&) = delete;

  virtual bool takes(const Event& event) const = 0;
  virtual bool takes_tensor(const Event& event, NameId name) const = 0;
  /// The part of the event that both sides must have in common.
  virtual Event shared_part(const Event& event) const = 0;
};

/// Everything a run did that no schedule and no machine decides.
class WholeRun final : public Selection {
 public:
  bool takes(const Event& event) const override {
    if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
      return collective->phase != CollectivePhase::kCompleted;
    }
    return !std::holds_alternative<LogEvent>(event.body) &&
           !std::holds_alternative<FaultEvent>(event.body) &&
           !std::holds_alternative<ValueEvent>(event.body) &&
           !std::holds_alternative<EnvironmentEvent>(event.body);
  }

  bool takes_tensor(const Event& /*event*/, NameId /*name*/) const override { return true; }

  Event shared_part(const Event& event) const override { return bare(event); }
};

/// What the replicas of a model are to have in common.
class SharedState final : public Selection {
 public:
  explicit SharedState(const MemoryTrace& trace) : names_(&trace.names()) {
    std::map<std::pair<laws::WrapperKey, std::int32_t>, LayoutId> first_layouts;
    for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
      std::map<laws::WrapperKey, std::int32_t> n_states;
      for (const Event& event : trace.events(Rank{r})) {
        if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) wrappers_.on_wrap(event, *wrap);
        const auto* state = std::get_if<StateEvent>(&event.body);
        if (state == nullptr || state->kind != StateKind::kOptimizer) continue;
        const laws::WrapperKey key = laws::wrapper_of(event.at);
        const auto known = first_layouts.try_emplace({key, n_states[key]++}, state->layout);
        if (known.first->second != state->layout) optimizer_is_sharded_ = true;
      }
    }
  }

  bool takes(const Event& event) const override {
    if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      return forward->training && forward->grad;
    }
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      return grad->point == GradPoint::kPost || grad->point == GradPoint::kUsed;
    }
    if (const auto* state = std::get_if<StateEvent>(&event.body)) return takes_state(event, *state);
    return std::holds_alternative<WrapEvent>(event.body) ||
           std::holds_alternative<StepEvent>(event.body);
  }

  bool takes_tensor(const Event& event, NameId name) const override {
    return !wrappers_.ignored(laws::wrapper_of(event.at), name, *names_);
  }

  Event shared_part(const Event& event) const override {
    // A rank that skips a step lags behind in everything but synchronising forwards.
    Event copy = bare(event);
    copy.rank = Rank{0};
    copy.at = {event.at.attempt, event.at.wrapper, event.at.sync, 0, 0, 0};
    return copy;
  }

 private:
  bool takes_state(const Event& event, const StateEvent& state) const {
    if (state.kind == StateKind::kParam) return true;
    if (state.kind == StateKind::kOptimizer) return !optimizer_is_sharded_;
    // Buffers are broadcast as forwards begin and may differ everywhere else.
    const WrapEvent* const wrap = wrappers_.find(laws::wrapper_of(event.at));
    return state.point == StatePoint::kForward && wrap != nullptr &&
           wrap->buffer_policy != BufferPolicy::kLocal;
  }

  const NameTable* names_;
  laws::Wrappers wrappers_;
  bool optimizer_is_sharded_ = false;
};

/// Some ranks of a trace as one side of a comparison: a tree, and what its leaves stand for.
class Side {
 public:
  Side(const MemoryTrace& trace, const Selection& selection)
      : trace_(&trace), selection_(&selection) {}

  void make(std::int32_t first_rank, std::int32_t end_rank) {
    for (std::int32_t r = first_rank; r < end_rank; ++r) divide(trace_->events(Rank{r}));
    std::size_t n_steps = 0;
    for (const auto& steps : by_rank_) n_steps = std::max(n_steps, steps.size());
    for (std::size_t step = 0; step < n_steps; ++step) {
      leaves_.clear();
      first_entry_.push_back(entries_.size());
      add_step(step);
      tree_.add_step(leaves_);
    }
    by_rank_.clear();
  }

  const laws::DigestTree& tree() const { return tree_; }

  const MemoryTrace& trace() const { return *trace_; }

  std::size_t n_entries() const { return entries_.size(); }

  const Entry* entry(std::size_t step, std::size_t leaf) const {
    return leaf < tree_.n_leaves(step) ? &entries_[first_entry_[step] + leaf] : nullptr;
  }

  std::string tensor_of(const Entry& entry) const {
    if (entry.tensor == Entry::kWholeEvent) return {};
    const auto names = trace_->names().layout(named_digests_of(*entry.event).layout);
    const auto i = static_cast<std::size_t>(entry.tensor);
    return i < names.size() ? std::string(trace_->names().text(names[i])) : std::string();
  }

 private:
  using Step = std::vector<const Event*>;

  /// A step is a stretch of one attempt, wrapper and synchronising forward.
  void divide(std::span<const Event> events) {
    std::vector<Step>& steps = by_rank_.emplace_back();
    const Event* last = nullptr;
    for (const Event& event : events) {
      if (!selection_->takes(event)) continue;
      const auto key = [](const Position& at) {
        return std::tuple(at.attempt, at.wrapper, at.sync);
      };
      if (last == nullptr || key(last->at) != key(event.at)) steps.emplace_back();
      steps.back().push_back(&event);
      last = &event;
    }
  }

  /// The first events of all ranks, then the second ones: what one rank does wrong comes before
  /// what follows from it on another.
  void add_step(std::size_t step) {
    std::size_t n_events = 0;
    for (const auto& steps : by_rank_) {
      if (step < steps.size()) n_events = std::max(n_events, steps[step].size());
    }
    for (std::size_t nth = 0; nth < n_events; ++nth) {
      for (const auto& steps : by_rank_) {
        if (step < steps.size() && nth < steps[step].size()) add(*steps[step][nth]);
      }
    }
  }

  void add(const Event& event) {
    const std::string line = to_json_line(selection_->shared_part(event), trace_->names());
    leaves_.push_back(digest_of_text(line));
    entries_.push_back({&event, Entry::kWholeEvent});
    const NamedDigests digests = named_digests_of(event);
    const std::span<const NameId> names = trace_->names().layout(digests.layout);
    for (std::size_t i = 0; i < digests.words.size(); ++i) {
      if (i < names.size() && !selection_->takes_tensor(event, names[i])) continue;
      leaves_.push_back(mix64(digests.words[i] + kGolden64) | 1U);
      entries_.push_back({&event, static_cast<std::int32_t>(i)});
    }
  }

  const MemoryTrace* trace_;
  const Selection* selection_;
  std::vector<std::vector<Step>> by_rank_;
  std::vector<std::uint64_t> leaves_;  // Of the step that is being made.
  std::vector<Entry> entries_;
  std::vector<std::size_t> first_entry_;  // By step.
  laws::DigestTree tree_;
};

std::string entry_text(const Side& side, const Entry& entry) {
  const std::string tensor = side.tensor_of(entry);
  return event_name(*entry.event) + (tensor.empty() ? "" : " of `" + tensor + "`");
}

/// Whether `head` is the event itself of which `entry` is one tensor.
bool is_head_of(const Entry* head, const Entry& entry) {
  return head->event == entry.event && head->tensor == Entry::kWholeEvent;
}

/// Runs the search and fills in all but the ranks that differ.
class Search {
 public:
  explicit Search(std::span<const Side> sides) : sides_(sides) {
    std::vector<const laws::DigestTree*> trees;
    trees.reserve(sides.size());
    for (const Side& side : sides) trees.push_back(&side.tree());
    const laws::TreeSearch found = laws::first_difference_of(trees);
    result_.n_comparisons = found.n_comparisons;
    for (const Side& side : sides) {
      result_.n_steps = std::max(result_.n_steps, static_cast<std::int64_t>(side.tree().n_steps()));
      result_.n_entries = std::max(result_.n_entries, static_cast<std::int64_t>(side.n_entries()));
    }
    if (found.first) describe(*found.first);
  }

  Bisection& result() { return result_; }

  laws::TreePlace place() const { return place_; }

 private:
  void describe(laws::TreePlace place) {
    place_ = place;
    const Side* told_by = nullptr;  // The side whose entry comes first, by rank.
    const Entry* entry = nullptr;
    for (const Side& side : sides_) {
      const auto n = static_cast<std::int64_t>(side.tree().n_leaves(place.step));
      result_.n_entries_in_step = std::max(result_.n_entries_in_step, n);
      const Entry* const here = side.entry(place.step, place.leaf);
      if (here == nullptr) continue;
      const bool earlier =
          entry == nullptr || to_int(here->event->rank) < to_int(entry->event->rank);
      if (!earlier) continue;
      entry = here;
      told_by = &side;
    }
    FirstDifference& first = result_.first.emplace();
    first.at = entry->event->at;
    first.ranks = {entry->event->rank};
    first.event = event_name(*entry->event);
    first.tensor = told_by->tensor_of(*entry);
    first.n_equal = static_cast<std::int64_t>(place.leaf);
    first.first_step = place.step == 0;
    // That this very event came at all says less than what came before it.
    std::size_t before = place.leaf;
    if (before > 0 && is_head_of(told_by->entry(place.step, before - 1), *entry)) --before;
    if (before > 0) first.before = entry_text(*told_by, *told_by->entry(place.step, before - 1));
  }

  std::span<const Side> sides_;
  laws::TreePlace place_;
  Bisection result_;
};

/// The ranks that have something else than most at a place, or nothing where others have something.
std::vector<Rank> minority_at(std::span<const Side> sides,
                              std::span<const Rank> ranks,
                              laws::TreePlace place) {
  laws::Ballot ballot;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    Event voter;
    voter.rank = ranks[i];
    const std::uint64_t word = sides[i].tree().node(place.step, 0, place.leaf);
    ballot.add(voter, std::span<const std::uint64_t>(&word, 1));
  }
  return ballot.minority(0);
}

/// Those that left something: one of another node, whose files are not here, says nothing.
std::vector<Rank> ranks_in(const MemoryTrace& trace) {
  std::vector<Rank> ranks;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    if (!trace.events(Rank{r}).empty()) ranks.push_back(Rank{r});
  }
  return ranks;
}

/// The name of `usual` when the two are not even of one kind.
std::string other_event(const Entry& odd, const Entry& usual) {
  std::string name = event_name(*usual.event);
  return name == event_name(*odd.event) ? std::string() : name;
}

bool is_found(const Entry* entry) {
  if (entry == nullptr) return false;
  const auto* state = std::get_if<StateEvent>(&entry->event->body);
  return state != nullptr && state->point == StatePoint::kFound;
}

/// Where some ranks found a parameter other than they had left it, it is these that differ, however
/// many or few they are. Returns: whether it was so.
bool name_writers(std::span<const Side> sides,
                  std::span<const Rank> ranks,
                  laws::TreePlace place,
                  FirstDifference& first) {
  std::vector<Rank> writers;
  const Side* one = nullptr;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (!is_found(sides[i].entry(place.step, place.leaf))) continue;
    writers.push_back(ranks[i]);
    one = &sides[i];
  }
  if (writers.empty() || writers.size() == sides.size()) return false;
  const Entry* entry = one->entry(place.step, place.leaf);
  first.event = event_name(*entry->event);
  if (entry->tensor == Entry::kWholeEvent && is_found(one->entry(place.step, place.leaf + 1))) {
    entry = one->entry(place.step, place.leaf + 1);
  }
  first.tensor = one->tensor_of(*entry);
  first.ranks = writers;
  first.only_on = ranks_text(writers);
  return true;
}

std::string count_text(std::int64_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

}  // namespace

Bisection bisect_runs(const MemoryTrace& left, const MemoryTrace& right) {
  const WholeRun selection;
  std::vector<Side> sides;
  sides.reserve(2);
  for (const MemoryTrace* trace : {&left, &right}) {
    sides.emplace_back(*trace, selection).make(0, trace->n_ranks());
  }
  Search search(sides);
  Bisection result = std::move(search.result());
  if (!result.first) return result;
  const auto [step, leaf] = search.place();
  const Entry* const a = sides[0].entry(step, leaf);
  const Entry* const b = sides[1].entry(step, leaf);
  // Where one side lacks an event, the other one's is followed by what the next rank did.
  const std::int32_t rank = to_int(result.first->ranks.front());
  const bool on_first = a != nullptr && to_int(a->event->rank) == rank;
  const bool on_second = b != nullptr && to_int(b->event->rank) == rank;
  if (!on_first) result.first->only_on = "the second";
  if (!on_second) result.first->only_on = "the first";
  if (on_first && on_second) result.first->instead = other_event(*a, *b);
  return result;
}

Bisection bisect_ranks(const MemoryTrace& trace) {
  const SharedState selection(trace);
  const std::vector<Rank> ranks = ranks_in(trace);
  std::vector<Side> sides;
  sides.reserve(ranks.size());
  for (const Rank rank : ranks) {
    sides.emplace_back(trace, selection).make(to_int(rank), to_int(rank) + 1);
  }
  if (sides.empty()) return {};
  Search search(sides);
  Bisection result = std::move(search.result());
  if (!result.first) return result;
  std::vector<Rank> having;
  const auto [step, leaf] = search.place();
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].entry(step, leaf) != nullptr) having.push_back(ranks[i]);
  }
  if (having.size() < sides.size()) result.first->only_on = ranks_text(having);
  if (name_writers(sides, ranks, search.place(), *result.first)) return result;
  const std::vector<Rank> minority = minority_at(sides, ranks, search.place());
  const Entry* odd = nullptr;
  const Entry* usual = nullptr;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const bool is_odd = std::find(minority.begin(), minority.end(), ranks[i]) != minority.end();
    const Entry*& entry = is_odd ? odd : usual;
    if (entry == nullptr) entry = sides[i].entry(step, leaf);
  }
  result.first->ranks = minority;
  if (odd != nullptr && usual != nullptr) {
    result.first->event = event_name(*odd->event);
    result.first->instead = other_event(*odd, *usual);
  }
  return result;
}

std::string divergence_line(const Bisection& bisection) {
  if (!bisection.first) return {};
  const FirstDifference& first = *bisection.first;
  std::string text;
  if (first.at.attempt > 0) text += "attempt " + std::to_string(first.at.attempt) + ", ";
  text += first.at.sync < 0 ? "before the first step, "
                            : "step " + std::to_string(first.at.opt) + " (sync " +
                                  std::to_string(first.at.sync) + "), ";
  text += ranks_text(first.ranks) + ", " + first.event;
  if (!first.tensor.empty()) text += " of `" + first.tensor + "`";
  if (!first.only_on.empty()) text += ", which only " + first.only_on + " recorded here";
  if (!first.instead.empty()) text += " in place of " + first.instead;
  text += "; equal before it: ";
  if (!first.first_step) text += "everything before this step";
  if (!first.before.empty()) {
    text += (first.first_step ? "" : ", and ") + count_text(first.n_equal, "entry", "entries") +
            " of it, the last being " + first.before;
  }
  if (first.first_step && first.before.empty()) text += "nothing";
  return text;
}

std::function<std::string()> first_divergence_of(const MemoryTrace* trace) {
  if (trace == nullptr) return {};
  return [trace] { return divergence_line(bisect_ranks(*trace)); };
}

std::string bisection_text(const Bisection& bisection, const std::string& what) {
  const std::string cost = count_text(bisection.n_comparisons, "comparison", "comparisons") +
                           " of digests, for " + count_text(bisection.n_steps, "step", "steps") +
                           " and " + count_text(bisection.n_entries, "entry", "entries");
  if (!bisection.first) return "equal: " + what + " (" + cost + ")\n";
  return "first difference: " + divergence_line(bisection) + "\n" + cost + "\n";
}

}  // namespace lockstep
