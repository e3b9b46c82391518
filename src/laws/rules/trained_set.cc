// trained-set: what is trainable is what is reduced is what is optimised, and nothing is left over.
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/trained/rank_optimizers.h"
#include "lockstep/laws/rules/detail/trained/trained_sets.h"
#include "lockstep/laws/rules/detail/trained/undone_updates.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kTrainedSet = "trained-set";

/// Shows which parameters got a gradient, or which a step used.
bool shows_the_trained(const GradEvent& grad) {
  return grad.point == GradPoint::kInc || grad.point == GradPoint::kUsed;
}

/// Shows which parameters have changed from the beginning to the end.
bool shows_what_moved(const StateEvent& state) {
  return state.kind == StateKind::kParam &&
         (state.point == StatePoint::kWrap || state.point == StatePoint::kEnd);
}

bool awaits_a_backward(const ForwardEvent& forward) {
  return forward.grad && forward.through_wrapper && forward.synchronizing;
}

bool trains(const Event& event) {
  return std::holds_alternative<GradEvent>(event.body) ||
         std::holds_alternative<StepEvent>(event.body);
}

std::string counted_parameters(std::size_t n) {
  return std::to_string(n) + (n == 1 ? " parameter" : " parameters");
}

std::string_view are(std::size_t n) { return n == 1 ? "is" : "are"; }

std::string wrapped_with_gradients(std::size_t n) {
  return std::to_string(n) + " wrapped " +
         (n == 1 ? "parameter that gets one is" : "parameters that get one are");
}

std::string unwrapped_text(bool by_hand,
                           std::span<const NameId> parameters,
                           const NameTable& names) {
  const bool is_one = parameters.size() == 1;
  return fmt::format(
      "{} {} (first: `{}`) {} trained by each rank's own gradients. {} {} with the rest, unless {} "
      "should differ between ranks.",
      counted_parameters(parameters.size()),
      by_hand ? "outside the manual reduction" : "outside every wrapper",
      names.text(parameters.front()),
      is_one ? "is" : "are",
      by_hand ? "Reduce" : "Wrap",
      is_one ? "it" : "them",
      is_one ? "it" : "they");
}

/// Takes away what a loop reduces by itself: its first step is one of no wrapper all the same.
void leave_to_loop(std::vector<NameId>& left, const WrapEvent* loop, const NameTable& names) {
  if (loop == nullptr) return;
  std::erase_if(left, [&](NameId parameter) {
    return Wrappers::contains(names.layout(loop->params), parameter);
  });
}

bool was_frozen(const WrapEvent* wrap, NameId tensor, const NameTable& names) {
  return wrap != nullptr && wrap->frozen != kNoLayout &&
         Wrappers::contains(names.layout(wrap->frozen), tensor);
}

class TrainedSet final : public Law {
 public:
  explicit TrainedSet(const LawPolicy& policy) : n_ranks_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kTrainedSet); }

  EventKinds reads() const override {
    return kinds_of<WrapEvent,
                    ForwardEvent,
                    GradEvent,
                    StateEvent,
                    StepEvent,
                    ZeroGradEvent,
                    CollectiveEvent,
                    EndEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = options.grad_post = options.grad_used = options.zero_grads = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    undone_.on_event(event, wrappers_, names);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad != nullptr && !shows_the_trained(*grad)) return;
    const auto* state = std::get_if<StateEvent>(&event.first->body);
    undone_.on_cohort(event, wrappers_, names);
    if (std::holds_alternative<CollectiveEvent>(event.first->body)) return;
    if (state != nullptr && !shows_what_moved(*state)) return;
    const bool differs = state != nullptr && !event.equal();
    const bool together = event.similarity <= Similarity::kSameShape && !differs &&
                          sets_.shares(wrapper_of(event.first->at), all_ranks(event)) &&
                          !std::holds_alternative<EndEvent>(event.first->body) &&
                          !(event.first->at.wrapper < 0 && trains(*event.first)) &&
                          !(grad != nullptr && trains_left_out(*event.first, *grad, names));
    deliver(event, together, [&](const Event& own, RankRange who) { observe(own, who, names); });
  }

  LawResult finish(const NameTable& names) override {
    report_unreduced(names);
    report_replaced(names);
    report_displaced(names);
    if (findings_.empty()) advise_unwrapped(names);
    report_stale(names);
    report_windows();
    report_cleared();
    for (Finding& finding : undone_.findings(names)) findings_.push_back(std::move(finding));
    LawResult result = conclude(kTrainedSet,
                                std::move(findings_),
                                n_checked_,
                                "grad events at inc and used, and the optimizers' steps");
    result.advice = std::move(advice_);
    return result;
  }

 private:
  void observe(const Event& event, RankRange who, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      on_grad(event, *grad, sets_.at(wrapper, who), names);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, *step, who, names);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (awaits_a_backward(*forward)) sets_.at(wrapper, who).awaited = event.at.opt;
    } else if (std::holds_alternative<ZeroGradEvent>(event.body)) {
      if (TrainedSets* const sets = sets_.find(wrapper, who)) sets->clear(event.at.epoch);
    } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      if (shows_what_moved(*state)) sets_.at(wrapper, who).see(*state, names);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      if (end->outcome == EndOutcome::kOk) ended_.insert({event.rank, event.at.attempt});
    }
  }

  void on_step(const Event& event, const StepEvent& step, RankRange who, const NameTable& names) {
    if (event.at.wrapper < 0) note_replaced(event, step, names);
    sets_.at(wrapper_of(event.at), who).step(step, event.at.opt);
    n_checked_ += who.n;
  }

  void on_grad(const Event& event,
               const GradEvent& grad,
               TrainedSets& sets,
               const NameTable& names) {
    if (grad.point == GradPoint::kInc) {
      sets.contribute(grad, event.at.epoch);
    } else if (grad.point == GradPoint::kUsed) {
      sets.use(grad, event.at.opt);
      note_unreduced(event, grad, sets, names);
    }
  }

  /// Which parameters of a step the wrapper does not reduce: those that were frozen when it was made,
  /// and those that the model has got since.
  const std::vector<std::size_t>& left_out_of(WrapperKey wrapper,
                                              LayoutId layout,
                                              const NameTable& names) {
    static const std::vector<std::size_t> none;
    const WrapEvent* const wrap = wrappers_.find(wrapper);
    if (wrap == nullptr || wrap->n_ranks < 2 || wrap->params == kNoLayout) return none;
    const auto [entry, is_new] = left_out_.try_emplace({wrapper, layout});
    if (!is_new) return entry->second;
    const std::span<const NameId> reduced = names.layout(wrap->params);
    const std::span<const NameId> used = names.layout(layout);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const bool known = (i < reduced.size() && reduced[i] == used[i]) ||
                         Wrappers::contains(reduced, used[i]) ||
                         wrappers_.ignored(wrapper, used[i], names);
      if (!known) entry->second.push_back(i);
    }
    return entry->second;
  }

  /// Whether a step uses a gradient of such a parameter.
  bool trains_left_out(const Event& event, const GradEvent& grad, const NameTable& names) {
    if (grad.point != GradPoint::kUsed) return false;
    return std::ranges::any_of(left_out_of(wrapper_of(event.at), grad.layout, names),
                               [&](std::size_t i) { return !bit(grad.undefined, i); });
  }

  void note_unreduced(const Event& event,
                      const GradEvent& grad,
                      TrainedSets& sets,
                      const NameTable& names) {
    const std::span<const NameId> layout = names.layout(grad.layout);
    for (const std::size_t i : left_out_of(wrapper_of(event.at), grad.layout, names)) {
      const bool known = std::any_of(sets.unreduced.begin(),
                                     sets.unreduced.end(),
                                     [&](const Unreduced& one) { return one.tensor == layout[i]; });
      if (known || bit(grad.undefined, i)) continue;
      sets.unreduced.push_back({layout[i], event.at.opt, grad.digests[i]});
    }
  }

  /// A wrapper whose forward was to reduce, and whose backward passed all of its parameters by, while
  /// a step trained parameters that no wrapper has.
  void note_replaced(const Event& event, const StepEvent& step, const NameTable& names) {
    const WrapperKey none = wrapper_of(event.at);
    const TrainedSets* const outside = sets_.find(none, one_rank(event));
    if (outside == nullptr || !outside->has_gradient || step.skipped) return;
    const Replaced seen{0, outside->used, names.layout(step.layout).size()};
    for (const auto& [wrapper, wrap] : wrappers_.all()) {
      if (wrapper.attempt != none.attempt || wrap.n_ranks < 2) continue;
      TrainedSets* const sets = sets_.find(wrapper, one_rank(event));
      if (sets == nullptr || !sets->awaited || sets->replaced || sets->n_with_gradient == 0)
        continue;
      sets->replaced = seen;
      sets->replaced->step = *sets->awaited;
    }
  }

  // -- what follows from it

  /// Ranks that broke the law in one way, and the first of their places.
  struct Broken {
    std::vector<Rank> ranks;
    std::int32_t step = 0;
  };

  void report(WrapperKey wrapper, const Broken& broken, Cause cause, Finding finding) {
    finding.attempt = wrapper.attempt;
    finding.event = "step";
    finding.step = broken.step;
    finding.ranks = broken.ranks;
    finding.cause = cause;
    findings_.push_back(std::move(finding));
  }

  /// Frozen and new parameters that a step trained: nothing reduced their gradients. Where all ranks
  /// had the same one, the program reduced it by itself.
  void report_unreduced(const NameTable& names) {
    struct Seen {
      Broken broken;
      std::set<std::uint64_t> digests;
    };

    std::map<std::pair<WrapperKey, NameId>, Seen> seen;
    for (const auto& [place, sets] : sets_.all()) {
      for (const Unreduced& one : sets.unreduced) {
        Seen& entry = seen[{place.key, one.tensor}];
        if (entry.broken.ranks.empty()) entry.broken.step = one.step;
        entry.broken.ranks.push_back(Rank{place.rank});
        entry.digests.insert(one.digest);
      }
    }
    for (const auto& [key, entry] : seen) {
      const std::int32_t n_members = wrappers_.n_members(key.first, n_ranks_);
      const bool on_all = std::ssize(entry.broken.ranks) >= n_members;
      if (on_all && entry.digests.size() == 1) continue;
      Finding finding;
      finding.tensor = names.text(key.second);
      finding.field = "reduced";
      const bool frozen = was_frozen(wrappers_.find(key.first), key.second, names);
      finding.message =
          frozen ? "the parameter was frozen at wrapping and is trained now: its gradient is never "
                   "reduced"
                 : "the parameter was added after wrapping: its gradient is never reduced";
      report(key.first,
             entry.broken,
             frozen ? Cause::kUnfreezeAfterWrap : Cause::kParamReplaced,
             std::move(finding));
    }
  }

  /// New parameters stand in for a wrapper's: as many of them, with other gradients on each rank, and
  /// the wrapper's own never got one again. Equal gradients were reduced by the program.
  void report_replaced(const NameTable& names) {
    struct Seen {
      Broken broken;
      std::set<std::uint64_t> used;
      NameId tensor = kNoName;
    };

    std::map<WrapperKey, Seen> seen;
    for (const auto& [place, sets] : sets_.all()) {
      if (!sets.replaced || sets.reduced == kNoLayout) continue;
      const std::span<const NameId> layout = names.layout(sets.reduced);
      if (layout.size() != sets.replaced->n_parameters) continue;
      Seen& entry = seen[place.key];
      if (entry.broken.ranks.empty()) entry.broken.step = sets.replaced->step;
      entry.broken.ranks.push_back(Rank{place.rank});
      entry.used.insert(sets.replaced->used);
      entry.tensor = layout.front();
    }
    for (const auto& [wrapper, entry] : seen) {
      if (entry.used.size() < 2) continue;
      Finding finding;
      finding.tensor = names.text(entry.tensor);
      finding.field = "reduced";
      finding.message =
          "from here on the wrapped parameters get no gradients: the optimizer trains the same "
          "number of other parameters, which no wrapper reduces";
      report(wrapper, entry.broken, Cause::kParamReplaced, std::move(finding));
    }
  }

  /// Parameters of a wrapper that never got a gradient and are in no optimizer, while a step trained as
  /// many of no wrapper, with other gradients on each rank: those stand in for them.
  void report_displaced(const NameTable& names) {
    struct Seen {
      Broken broken;
      std::set<std::uint64_t> used;
      NameId tensor = kNoName;
    };

    std::map<WrapperKey, Seen> seen;
    const std::map<RankWrapper, TrainedSets>& all = sets_.all();
    for (const auto& [place, sets] : all) {
      const auto outside = all.find({place.rank, {place.key.attempt, -1}});
      if (place.key.wrapper < 0 || outside == all.end() || outside->second.n_with_gradient == 0)
        continue;
      std::size_t n_outside = 0;
      for (const LayoutId layout : outside->second.optimized)
        n_outside += names.layout(layout).size();
      const std::vector<NameId> idle =
          RankOptimizers(all, place, names).idle(sets, place.key, wrappers_);
      if (idle.empty() || idle.size() != n_outside) continue;
      Seen& entry = seen[place.key];
      if (entry.broken.ranks.empty()) entry.broken.step = outside->second.first_step;
      entry.broken.ranks.push_back(Rank{place.rank});
      entry.used.insert(outside->second.first_used);
      entry.tensor = idle.front();
    }
    for (const auto& [wrapper, entry] : seen) {
      if (entry.used.size() < 2) continue;
      Finding finding;
      finding.tensor = names.text(entry.tensor);
      finding.field = "reduced";
      finding.message =
          "it never gets a gradient and is in no optimizer; the step trains the same number of "
          "unwrapped parameters with each rank's own gradients";
      report(wrapper, entry.broken, Cause::kParamReplaced, std::move(finding));
    }
  }

  /// Parameters of no wrapper that steps train beside a wrapper's, by other gradients on each rank.
  /// Advice: a rank may hold parameters of its own, such as its share of a table.
  void advise_unwrapped(const NameTable& names) {
    struct Seen {
      std::set<std::uint64_t> used;
      LayoutId layout = kNoLayout;
      LayoutId last_layout = kNoLayout;  ///< Where a loop began to reduce, of what it leaves out.
      bool trains_a_wrapper = false;
      bool reduces_by_itself = false;
    };

    std::map<std::int32_t, Seen> seen;  // By attempt.
    for (const auto& [place, sets] : sets_.all()) {
      Seen& entry = seen[place.key.attempt];
      if (place.key.wrapper >= 0) {
        const WrapEvent* const wrap = wrappers_.find(place.key);
        entry.trains_a_wrapper |= sets.n_with_gradient > 0 && wrap != nullptr && wrap->n_ranks > 1;
        entry.reduces_by_itself |= wrap != nullptr && !wrap->synchronizes;
      } else if (sets.n_with_gradient > 0) {
        entry.used.insert(sets.first_used);
        entry.layout = sets.optimized.front();
        entry.last_layout = sets.optimized.back();
      }
    }
    for (const auto& [attempt, entry] : seen) {
      if (!entry.trains_a_wrapper || entry.used.size() < 2) continue;
      const bool by_hand = entry.reduces_by_itself;
      const std::span<const NameId> trained =
          names.layout(by_hand ? entry.last_layout : entry.layout);
      std::vector<NameId> left(trained.begin(), trained.end());
      leave_to_loop(left, wrappers_.find_loop(attempt), names);
      if (!left.empty()) advice_.push_back({"A-unwrapped", unwrapped_text(by_hand, left, names)});
    }
  }

  /// Takes away what some rank's optimizer has: ranks may share the steps out and send each other what
  /// comes of them.
  void leave_to_others(std::vector<NameId>& left, WrapperKey key, const NameTable& names) const {
    for (const auto& [place, sets] : sets_.all()) {
      if (place.key != key) continue;
      for (const LayoutId layout : sets.optimized) {
        std::erase_if(left, [&](NameId parameter) {
          return Wrappers::contains(names.layout(layout), parameter);
        });
      }
    }
  }

  void report_stale(const NameTable& names) {
    std::map<std::pair<WrapperKey, NameId>, Broken> stale;
    std::map<std::pair<WrapperKey, NameId>, std::size_t> n_tensors;
    for (const auto& [place, sets] : sets_.all()) {
      const RankOptimizers optimizers(sets_.all(), place, names);
      if (sets.reduced == kNoLayout || !optimizers.any_stepped()) continue;
      std::vector<NameId> left = optimizers.left_over(sets, place.key, wrappers_);
      if (!left.empty()) leave_to_others(left, place.key, names);
      if (left.empty()) continue;
      const std::pair<WrapperKey, NameId> key{place.key, left.front()};
      if (optimizers.one_is_dead()) {
        stale[key].ranks.push_back(Rank{place.rank});
        n_tensors[key] = left.size();
      } else if (place.rank == 0) {
        advice_.push_back({"A-not-optimised",
                           fmt::format("{} (first: `{}`) with gradients {} in no optimizer. Add "
                                       "them to one, or freeze them (requires_grad = false).",
                                       counted_parameters(left.size()),
                                       names.text(left.front()),
                                       are(left.size()))});
      }
    }
    for (const auto& [key, broken] : stale) {
      Finding finding;
      finding.tensor = names.text(key.second);
      finding.field = "optimised";
      finding.message = fmt::format(
          "the optimizer holds parameters that never get a gradient, and {} in no optimizer",
          wrapped_with_gradients(n_tensors[key]));
      report(key.first, broken, Cause::kOptimizerStale, std::move(finding));
    }
  }

  void report_windows() {
    std::map<WrapperKey, Broken> broken;
    std::map<WrapperKey, std::string> messages;
    for (auto& [place, sets] : sets_.all()) {
      if (ended_.contains({Rank{place.rank}, place.key.attempt})) sets.windows.on_end();
      const std::string message = sets.windows.complaint();
      if (message.empty()) continue;
      if (broken[place.key].ranks.empty()) {
        broken[place.key].step = sets.last_step;
        messages[place.key] = message;
      }
      broken[place.key].ranks.push_back(Rank{place.rank});
    }
    for (const auto& [wrapper, one] : broken) {
      Finding finding;
      finding.field = "window";
      finding.message = messages[wrapper];
      report(wrapper, one, Cause::kPartialWindow, std::move(finding));
    }
  }

  /// Every step came after its gradients had been cleared, and none ever had one.
  void report_cleared() {
    std::map<WrapperKey, Broken> cleared;
    for (const auto& [place, sets] : sets_.all()) {
      if (!sets.emptied_at || sets.n_used > 0) continue;
      Broken& broken = cleared[place.key];
      if (broken.ranks.empty()) broken.step = *sets.emptied_at;
      broken.ranks.push_back(Rank{place.rank});
    }
    for (const auto& [wrapper, broken] : cleared) {
      Finding finding;
      finding.field = "used";
      finding.message =
          "gradients were cleared between the backward pass and the step: no step had gradients to "
          "use";
      report(wrapper, broken, Cause::kClearedBeforeStep, std::move(finding));
    }
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  std::map<std::pair<WrapperKey, LayoutId>, std::vector<std::size_t>> left_out_;
  RankWrapperMap<TrainedSets> sets_;
  UndoneUpdates undone_;
  std::set<std::pair<Rank, std::int32_t>> ended_;  // With the attempt: those that ended well.
  std::vector<Finding> findings_;
  std::vector<Advice> advice_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_trained_set(const LawPolicy& policy) {
  return std::make_unique<TrainedSet>(policy);
}

}  // namespace lockstep::laws
