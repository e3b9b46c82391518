// reduced-once: no step uses a local contribution added after the gradient's last reduction.
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/laws/rules/detail/parameters/parameter_averages.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kReducedOnce = "reduced-once";

class ReducedOnce final : public Law {
 public:
  explicit ReducedOnce(const LawPolicy& policy) : n_ranks_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kReducedOnce); }

  EventKinds reads() const override {
    return kinds_of<GradEvent,
                    StepEvent,
                    ForwardEvent,
                    BackwardEvent,
                    WrapEvent,
                    ZeroGradEvent,
                    OuterStepEvent,
                    LoneEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = true;
    options.grad_post = true;
    options.grad_used = true;
    options.zero_grads = true;
    options.lone_steps = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad != nullptr && !is_read(*grad)) return;
    added_.on_event(event, names, n_members(event));
    take_own(names);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad != nullptr && !is_read(*grad)) return;
    added_.on_cohort(event, names, n_members(*event.first));
    take_own(names);
    deliver(event, can_hear_all(event), [&](const Event& own, RankRange who) {
      observe(own, who, names);
    });
  }

  LawResult finish(const NameTable& names) override {
    while (!lone_steps_.empty()) settle(lone_steps_.begin());
    std::vector<Finding> findings;
    std::set<std::pair<WrapperKey, NameId>> reported;
    for (auto& [key, broken] : broken_) {
      if (is_meant_at_end(key, broken) || !is_known_on_all(key.wrapper)) continue;
      if (!reported.insert({key.wrapper, key.tensor}).second) continue;
      if (broken.unused != kNoName && is_used_somewhere(key.wrapper, broken.unused)) {
        broken.cause = Cause::kBranchNoGraph;
      }
      findings.push_back(to_finding(key, broken, names));
    }
    LawResult result = conclude(kReducedOnce,
                                std::move(findings),
                                n_checked_,
                                "grad events at inc and post, steps, and more than one rank");
    if (extra_reductions_ > 0) {
      result.advice.push_back(
          {"A-extra-reductions",
           std::to_string(extra_reductions_) +
               " steps of rank 0 reduced more than once; no_sync around all micro-steps "
               "but the last would save the traffic"});
    }
    return result;
  }

 private:
  struct TensorState {
    NameId name = kNoName;
    bool unreduced = false;    ///< Holds a contribution newer than its last reduction.
    bool contributed = false;  ///< Since the last step.
    bool absent = false;       ///< Undefined in what the step used.
    bool ever = false;         ///< Contributed in any step.
  };

  /// One rank's view of one wrapper since the last step.
  struct Window {
    std::vector<TensorState> tensors;  // In layout order: the layout seldom changes.
    std::int32_t n_reductions = 0;
    std::int32_t n_in_a_row = 0;  ///< Reductions with nothing between them that parts them.
    bool parted = false;          ///< Gradients were cleared, or another optimizer stepped, since.
    std::int64_t n_steps = 0;     ///< Of all optimizers of the rank, at the last reduction.
    bool wrapped_forward = false;
    bool last_synchronizing = true;

    TensorState& tensor(NameId name, std::size_t hint) {
      if (hint < tensors.size() && tensors[hint].name == name) return tensors[hint];
      for (TensorState& tensor : tensors) {
        if (tensor.name == name) return tensor;
      }
      tensors.push_back({.name = name});
      return tensors.back();
    }

    void on_forward(const ForwardEvent& forward) {
      wrapped_forward = wrapped_forward || forward.through_wrapper;
      last_synchronizing = forward.synchronizing;
    }

    void restart() {
      for (TensorState& tensor : tensors) tensor = {.name = tensor.name, .ever = tensor.ever};
      n_reductions = 0;
      n_in_a_row = 0;
      parted = false;
      wrapped_forward = false;
      last_synchronizing = true;
    }
  };

  struct Broken {
    std::int32_t step = 0;
    std::int32_t sync = -1;
    std::vector<Rank> ranks;
    Cause cause = Cause::kNone;
    NameId unused = kNoName;  ///< A parameter that got no gradient.
  };

  /// The likely cause, and the parameter that shows it.
  struct Evidence {
    Cause cause = Cause::kNone;
    NameId unused = kNoName;
  };

  /// A tensor of a wrapper between two averages of its parameters.
  struct TensorKey {
    WrapperKey wrapper;
    NameId tensor = kNoName;
    std::int32_t interval = 0;
    friend auto operator<=>(const TensorKey&, const TensorKey&) = default;
  };

  /// A tensor whose gradient the wrapper had not reduced, in one rank's step.
  struct Suspect {
    TensorKey key;
    Rank rank{};
    std::int32_t step = 0;
    std::int32_t sync = -1;
    Evidence evidence;
  };

  /// One step of all ranks of a wrapper, of which some used such gradients.
  struct LoneStep {
    std::vector<Suspect> suspects;
    std::int32_t n_stepped = 0;
    std::vector<NameId> reduced;  ///< By the program itself.
  };

  using LoneSteps = std::map<std::pair<WrapperKey, std::int32_t>, LoneStep>;

  static constexpr std::size_t kMaxLoneSteps = 4096;

  static bool is_read(const GradEvent& grad) {
    return grad.point == GradPoint::kInc || grad.point == GradPoint::kPost ||
           grad.point == GradPoint::kUsed;
  }

  /// Where a step breaks the law, or is one of several wrappers, ranks are distinguished.
  bool can_hear_all(const CohortEvent& event) {
    const WrapperKey wrapper = wrapper_of(event.first->at);
    const RankRange all = all_ranks(event);
    if (std::holds_alternative<LoneEvent>(event.first->body)) return false;
    // Digests are not read.
    if (event.similarity > Similarity::kSameShape || !windows_.shares(wrapper, all)) return false;
    if (!steps_.shares({wrapper.attempt, -1}, all) || !averages_.shares(wrapper, all)) return false;
    if (std::holds_alternative<OuterStepEvent>(event.first->body)) return event.equal();
    if (!std::holds_alternative<StepEvent>(event.first->body)) return true;
    if (wrapper.wrapper < 0) return false;
    const Window* const window = windows_.find(wrapper, all);
    return window == nullptr ||
           std::none_of(window->tensors.begin(),
                        window->tensors.end(),
                        [](const TensorState& tensor) { return tensor.unreduced; });
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      Window& window = windows_.at(wrapper, who);
      if (grad->point == GradPoint::kPost) {
        count_reduction(window, steps_.at({wrapper.attempt, -1}, who));
      }
      on_grad(window, *grad, names);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, *step, who, names);
      ++steps_.at({wrapper.attempt, -1}, who);
      averages_.on_step(event);
    } else if (std::holds_alternative<ZeroGradEvent>(event.body)) {
      windows_.at(wrapper, who).parted = true;
    } else if (const auto* outer = std::get_if<OuterStepEvent>(&event.body)) {
      const auto ended =
          averages_.on_outer(event, *outer, who, wrappers_.n_members(wrapper, n_ranks_), names);
      if (ended) forgive(*ended);
    } else if (const auto* lone = std::get_if<LoneEvent>(&event.body)) {
      const auto ended =
          averages_.on_lone(event, *lone, wrappers_.n_members(wrapper, n_ranks_), names);
      if (ended) forgive(*ended);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (forward->grad) windows_.at(wrapper, who).on_forward(*forward);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
      n_wrapped_[wrapper] += who.n;
    }
  }

  /// no_sync can join reductions only where nothing comes between them: gradients that are cleared,
  /// or that another optimizer's step had a share in, were reduced for another reason.
  static void count_reduction(Window& window, std::int64_t n_steps) {
    ++window.n_reductions;
    const bool joins = !window.parted && window.n_steps == n_steps;
    window.n_in_a_row = joins ? window.n_in_a_row + 1 : 1;
    window.n_steps = n_steps;
    window.parted = false;
  }

  static void on_grad(Window& window, const GradEvent& grad, const NameTable& names) {
    const std::span<const NameId> layout = names.layout(grad.layout);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      TensorState& tensor = window.tensor(layout[i], i);
      const bool undefined = bit(grad.undefined, i);
      if (grad.point == GradPoint::kInc && !undefined) {
        tensor.unreduced = true;
        tensor.contributed = true;
        tensor.ever = true;
      } else if (grad.point == GradPoint::kPost) {
        tensor.unreduced = false;
      } else if (grad.point == GradPoint::kUsed) {
        tensor.absent = undefined;
      }
    }
  }

  void on_step(const Event& event, const StepEvent& step, RankRange who, const NameTable& names) {
    const std::span<const NameId> layout = names.layout(step.layout);
    if (event.at.wrapper >= 0) {
      const WrapperKey wrapper = wrapper_of(event.at);
      Window* const window = windows_.find(wrapper, who);
      if (window != nullptr) check(event, *window, step, {wrapper, who, layout}, names);
      return;
    }
    // An optimizer over several wrappers: each of them that holds one of its parameters.
    const RankWrapper first{to_int(event.rank), {event.at.attempt, -1}};
    std::map<RankWrapper, Window>& windows = windows_.all();
    for (auto at = windows.lower_bound(first); at != windows.end(); ++at) {
      if (at->first.rank != first.rank || at->first.key.attempt != event.at.attempt) break;
      check(event, at->second, step, {at->first.key, who, layout}, names);
    }
  }

  struct Where {
    WrapperKey wrapper;
    RankRange who;
    std::span<const NameId> layout;
  };

  bool is_used(const TensorState& tensor, const Where& where, const NameTable& names) const {
    if (tensor.absent || !tensor.contributed) return false;
    if (wrappers_.ignored(where.wrapper, tensor.name, names)) return false;
    return where.layout.empty() || Wrappers::contains(where.layout, tensor.name);
  }

  void check(const Event& event,
             Window& window,
             const StepEvent& step,
             const Where& where,
             const NameTable& names) {
    const WrapperKey key = where.wrapper;
    const WrapEvent* wrap = wrappers_.find(key);
    const bool alone = wrappers_.n_members(key, n_ranks_) < 2;
    if (!alone && !step.skipped && wrap != nullptr) {
      for (const TensorState& tensor : window.tensors) {
        if (!is_used(tensor, where, names)) continue;
        n_checked_ += where.who.n;
        if (tensor.unreduced) suspect(event, where, tensor.name, evidence_of(window, *wrap, names));
      }
      count_step({key, event.at.opt}, where.who);
      if (where.who.first == 0 && window.n_in_a_row > 1) ++extra_reductions_;
    }
    window.restart();
  }

  /// The last rank's step settles what all of them used.
  void count_step(const LoneSteps::key_type& place, RankRange who) {
    const auto lone = lone_steps_.find(place);
    if (lone == lone_steps_.end()) return;
    lone->second.n_stepped += who.n;
    if (lone->second.n_stepped >= wrappers_.n_members(place.first, n_ranks_)) settle(lone);
  }

  std::int32_t n_members(const Event& event) const {
    return wrappers_.n_members(wrapper_of(event.at), n_ranks_);
  }

  /// What all ranks' steps show the program to have reduced by itself. The last rank's step comes
  /// after what it uses.
  void take_own(const NameTable& names) {
    if (!added_.any()) return;
    for (const OwnReduction& own : added_.take()) {
      std::vector<NameId> reduced = own.reduced(names);
      if (!reduced.empty()) lone_steps_[{own.wrapper, own.step}].reduced = std::move(reduced);
    }
  }

  void suspect(const Event& event, const Where& where, NameId tensor, Evidence evidence) {
    LoneStep& lone = lone_steps_[{where.wrapper, event.at.opt}];
    lone.suspects.push_back({.key = {where.wrapper, tensor},
                             .rank = event.rank,
                             .step = event.at.opt,
                             .sync = event.at.sync,
                             .evidence = evidence});
    if (lone_steps_.size() > kMaxLoneSteps) settle(lone_steps_.begin());
  }

  void settle(LoneSteps::iterator at) {
    LoneStep lone = std::move(at->second);
    lone_steps_.erase(at);
    for (Suspect& one : lone.suspects) {
      one.key.interval = averages_.common_interval(one.key.wrapper);
      if (!Wrappers::contains(lone.reduced, one.key.tensor)) note(one);
    }
  }

  /// Whether every rank of the wrapper did it: a rank that trains alone by mistake has others that
  /// do not.
  bool is_on_all(const TensorKey& key, const Broken& broken) const {
    return std::ssize(broken.ranks) >= wrappers_.n_members(key.wrapper, n_ranks_);
  }

  /// Ranks trained alone on purpose: their parameters were averaged afterwards.
  void forgive(const ParameterAverages::Ended& ended) {
    std::erase_if(broken_, [&](const auto& entry) {
      return entry.first.wrapper == ended.wrapper && entry.first.interval == ended.interval &&
             Wrappers::contains(ended.tensors, entry.first.tensor) &&
             is_on_all(entry.first, entry.second);
    });
  }

  /// A recorder knows from calls what reduces its gradients by itself: where it did not on some ranks,
  /// nothing is known of what these use.
  bool is_known_on_all(WrapperKey key) const {
    const WrapEvent* const wrap = wrappers_.find(key);
    const auto n_wrapped = n_wrapped_.find(key);
    return wrap == nullptr || wrap->synchronizes ||
           (n_wrapped != n_wrapped_.end() &&
            n_wrapped->second >= wrappers_.n_members(key, n_ranks_));
  }

  bool is_meant_at_end(const TensorKey& key, const Broken& broken) const {
    return is_on_all(key, broken) && averages_.may_end_in(key.wrapper, key.interval, key.tensor);
  }

  static Evidence evidence_of(const Window& window, const WrapEvent& wrap, const NameTable& names) {
    if (!wrap.synchronizes) return {};
    if (!window.wrapped_forward) return {Cause::kBypassWrapper};
    if (window.n_reductions > 0 || !window.last_synchronizing) return {Cause::kLastMicroUnsynced};
    for (const NameId name : names.layout(wrap.params)) {
      bool contributed = false;
      for (const TensorState& tensor : window.tensors) {
        contributed = contributed || (tensor.name == name && tensor.contributed);
      }
      if (!contributed) return {Cause::kUnusedBucketUnfired, name};
    }
    return {};
  }

  /// Whether any rank ever computed a gradient for the parameter.
  bool is_used_somewhere(WrapperKey wrapper, NameId name) const {
    return std::any_of(windows_.all().begin(), windows_.all().end(), [&](const auto& entry) {
      const std::vector<TensorState>& tensors = entry.second.tensors;
      return entry.first.key == wrapper &&
             std::any_of(tensors.begin(), tensors.end(), [&](const TensorState& tensor) {
               return tensor.name == name && tensor.ever;
             });
    });
  }

  void note(const Suspect& one) {
    const auto [at, is_new] = broken_.try_emplace(one.key);
    Broken& broken = at->second;
    // Ranks arrive in any order: keep the earliest step and all ranks that broke the law there.
    if (is_new || one.step < broken.step) {
      broken = {one.step, one.sync, {one.rank}, one.evidence.cause, one.evidence.unused};
    } else if (one.step == broken.step && broken.ranks.back() != one.rank) {
      broken.ranks.push_back(one.rank);
      if (one.rank < broken.ranks.front()) {
        std::swap(broken.ranks.front(), broken.ranks.back());
        broken.cause = one.evidence.cause;
        broken.unused = one.evidence.unused;
      }
    }
  }

  static Finding to_finding(const TensorKey& key, Broken& broken, const NameTable& names) {
    std::sort(broken.ranks.begin(), broken.ranks.end());
    Finding finding;
    finding.attempt = key.wrapper.attempt;
    finding.event = "step";
    finding.tensor = names.text(key.tensor);
    finding.step = broken.step;
    finding.ranks = broken.ranks;
    finding.cause = broken.cause;
    finding.message = "the step used a local gradient that was never reduced";
    if (broken.cause == Cause::kBypassWrapper) {
      finding.message += ": the forward went to the inner module, so nothing armed the reduction";
    } else if (broken.cause == Cause::kLastMicroUnsynced) {
      finding.message = "the step used a contribution that came after the last reduction";
    } else if (broken.cause == Cause::kUnusedBucketUnfired) {
      finding.message += ": a parameter that got no gradient kept the buckets from firing";
    } else if (broken.cause == Cause::kBranchNoGraph) {
      finding.message +=
          ": `" + std::string(names.text(broken.unused)) + "` got a gradient on other ranks only";
    }
    return finding;
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  std::map<WrapperKey, std::int32_t> n_wrapped_;  // Ranks.
  RankWrapperMap<Window> windows_;
  RankWrapperMap<std::int64_t> steps_;  // Of all optimizers; wrappers do not matter.
  Contributions added_;
  ParameterAverages averages_;
  LoneSteps lone_steps_;
  std::map<TensorKey, Broken> broken_;
  std::int64_t n_checked_ = 0;
  std::int64_t extra_reductions_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_reduced_once(const LawPolicy& policy) {
  return std::make_unique<ReducedOnce>(policy);
}

}  // namespace lockstep::laws
