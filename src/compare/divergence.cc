#include "lockstep/compare/divergence.h"

#include <map>
#include <utility>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep {

namespace {

/// What was reported for one alignment key: which ranks voted, and for what.
struct StepBallot {
  laws::Ballot ballot;
  std::vector<Rank> voters;
  LayoutId layout = kNoLayout;
};

class DivergenceMap {
 public:
  explicit DivergenceMap(const MemoryTrace& trace) : trace_(trace) {}

  std::vector<DivergenceStep> make() {
    for (std::int32_t r = 0; r < trace_.n_ranks(); ++r) {
      for (const Event& event : trace_.events(Rank{r})) take(event);
    }
    for (const auto& [alignment, place] : places_) judge(alignment, place);
    std::vector<DivergenceStep> steps;
    steps.reserve(steps_.size());
    for (auto& [place, step] : steps_) steps.push_back(std::move(step));
    return steps;
  }

 private:
  void take(const Event& event) {
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) wrappers_.on_wrap(event, *wrap);
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state == nullptr || state->kind != StateKind::kParam) return;
    if (state->point != StatePoint::kStep) return;
    StepBallot& place = places_[counter_.next(event, 0, state->layout)];
    place.ballot.add(event, state->digests);
    place.voters.push_back(event.rank);
    place.layout = state->layout;
  }

  void judge(const laws::AlignmentKey& alignment, const StepBallot& place) {
    const std::int32_t attempt = alignment.wrapper.attempt;
    const std::int64_t number = place.ballot.majority_opt();
    DivergenceStep& step = steps_[{attempt, number}];
    step.attempt = attempt;
    step.step = number;
    step.ranks.resize(static_cast<std::size_t>(trace_.n_ranks()));
    for (const Rank voter : place.voters) {
      DivergenceCell& cell = step.ranks[to_index(voter)];
      if (cell.n_tensors == DivergenceCell::kNothing) cell.n_tensors = 0;
    }
    if (place.ballot.unanimous()) return;
    const std::span<const NameId> layout = trace_.names().layout(place.layout);
    for (std::size_t i = 0; i < std::min(layout.size(), place.ballot.n_words()); ++i) {
      if (wrappers_.ignored(alignment.wrapper, layout[i], trace_.names())) continue;
      for (const Rank rank : place.ballot.minority(i)) {
        DivergenceCell& cell = step.ranks[to_index(rank)];
        if (cell.n_tensors++ == 0) cell.first = trace_.names().text(layout[i]);
      }
    }
  }

  const MemoryTrace& trace_;
  laws::Wrappers wrappers_;
  laws::Counter counter_;
  std::map<laws::AlignmentKey, StepBallot> places_;
  std::map<std::pair<std::int32_t, std::int64_t>, DivergenceStep> steps_;
};

}  // namespace

std::vector<DivergenceStep> divergence_of(const MemoryTrace& trace) {
  return DivergenceMap(trace).make();
}

}  // namespace lockstep
