// reduced-once: no step uses a local contribution added after the gradient's last reduction.
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kReducedOnce = "reduced-once";

class ReducedOnce final : public Law {
 public:
  explicit ReducedOnce(const LawPolicy& policy) : n_ranks_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kReducedOnce); }

  EventKinds reads() const override {
    return kinds_of<GradEvent, StepEvent, ForwardEvent, WrapEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = true;
    options.grad_post = true;
    options.grad_used = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad != nullptr && !is_read(*grad)) return;
    deliver(event, can_hear_all(event), [&](const Event& own, RankRange who) {
      observe(own, who, names);
    });
  }

  LawResult finish(const NameTable& names) override {
    std::vector<Finding> findings;
    for (auto& [key, broken] : broken_) {
      if (broken.unused != kNoName && is_used_somewhere(key.first, broken.unused)) {
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

    void restart() {
      for (TensorState& tensor : tensors) tensor = {.name = tensor.name, .ever = tensor.ever};
      n_reductions = 0;
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

  using TensorKey = std::pair<WrapperKey, NameId>;

  static bool is_read(const GradEvent& grad) {
    return grad.point == GradPoint::kInc || grad.point == GradPoint::kPost ||
           grad.point == GradPoint::kUsed;
  }

  /// Where a step breaks the law, or is one of several wrappers, ranks are distinguished.
  bool can_hear_all(const CohortEvent& event) {
    const WrapperKey wrapper = wrapper_of(event.first->at);
    const RankRange all = all_ranks(event);
    // Digests are not read.
    if (event.similarity > Similarity::kSameShape || !windows_.shares(wrapper, all)) return false;
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
      if (is_read(*grad)) on_grad(windows_.at(wrapper, who), *grad, names);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, *step, who, names);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (!forward->grad) return;
      Window& window = windows_.at(wrapper, who);
      window.wrapped_forward = window.wrapped_forward || forward->through_wrapper;
      window.last_synchronizing = forward->synchronizing;
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    }
  }

  static void on_grad(Window& window, const GradEvent& grad, const NameTable& names) {
    if (grad.point == GradPoint::kPost) ++window.n_reductions;
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
        if (tensor.unreduced) note(event, key, tensor.name, evidence_of(window, *wrap, names));
      }
      if (where.who.first == 0 && window.n_reductions > 1) ++extra_reductions_;
    }
    window.restart();
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

  void note(const Event& event, WrapperKey wrapper, NameId tensor, Evidence evidence) {
    const TensorKey key{wrapper, tensor};
    const auto [at, is_new] = broken_.try_emplace(key);
    Broken& broken = at->second;
    // Ranks arrive in any order: keep the earliest step and all ranks that broke the law there.
    if (is_new || event.at.opt < broken.step) {
      broken = {event.at.opt, event.at.sync, {event.rank}, evidence.cause, evidence.unused};
    } else if (event.at.opt == broken.step && broken.ranks.back() != event.rank) {
      broken.ranks.push_back(event.rank);
      if (event.rank < broken.ranks.front()) {
        std::swap(broken.ranks.front(), broken.ranks.back());
        broken.cause = evidence.cause;
        broken.unused = evidence.unused;
      }
    }
  }

  static Finding to_finding(const TensorKey& key, Broken& broken, const NameTable& names) {
    std::sort(broken.ranks.begin(), broken.ranks.end());
    Finding finding;
    finding.attempt = key.first.attempt;
    finding.event = "step";
    finding.tensor = names.text(key.second);
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
  RankWrapperMap<Window> windows_;
  std::map<TensorKey, Broken> broken_;
  std::int64_t n_checked_ = 0;
  std::int64_t extra_reductions_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_reduced_once(const LawPolicy& policy) {
  return std::make_unique<ReducedOnce>(policy);
}

}  // namespace lockstep::laws
