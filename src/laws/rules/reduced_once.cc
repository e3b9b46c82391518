// reduced-once: no step uses a local contribution added after the gradient's last reduction.
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/laws/rules/detail/parameters/parameter_averages.h"
#include "lockstep/laws/rules/detail/reduced/unreduced_tensors.h"
#include "lockstep/laws/rules/detail/remarks.h"

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
                    LoneEvent,
                    LogEvent>();
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
    std::vector<Finding> findings;
    std::set<std::pair<WrapperKey, NameId>> reported;
    for (auto& [key, tensor] : unreduced_.settled()) {
      if (is_meant_at_end(key, tensor) || !is_known_on_all(key.wrapper)) continue;
      if (!reported.insert({key.wrapper, key.tensor}).second) continue;
      const NameId unused = tensor.evidence.unused;
      if (unused != kNoName && is_used_somewhere(key.wrapper, unused)) {
        tensor.evidence.cause = Cause::kBranchNoGraph;
      }
      findings.push_back(tensor.finding(key, is_loop(key.wrapper), names));
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
    auto again = wrapped_again_.advice(
        "A-wrapped-again", "Averaging equal averages changes nothing: wrap the model once.", names);
    if (again) result.advice.push_back(std::move(*again));
    return result;
  }

 private:
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
    const ReductionWindow* const window = windows_.find(wrapper, all);
    return window == nullptr || !window->any_unreduced();
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    wrapped_again_.on_event(event, who);
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      ReductionWindow& window = windows_.at(wrapper, who);
      if (grad->point == GradPoint::kPost) {
        window.on_reduction(steps_.at({wrapper.attempt, -1}, who));
      }
      window.on_grad(*grad, names);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, *step, who, names);
      ++steps_.at({wrapper.attempt, -1}, who);
      averages_.on_step(event);
    } else if (std::holds_alternative<ZeroGradEvent>(event.body)) {
      windows_.at(wrapper, who).part();
    } else if (const auto* outer = std::get_if<OuterStepEvent>(&event.body)) {
      const std::int32_t n = n_members(event);
      const auto ended = averages_.on_outer(event, *outer, who, n, names);
      if (ended) unreduced_.forgive(*ended, n);
    } else if (const auto* lone = std::get_if<LoneEvent>(&event.body)) {
      const std::int32_t n = n_members(event);
      const auto ended = averages_.on_lone(event, *lone, n, names);
      if (ended) unreduced_.forgive(*ended, n);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (forward->grad) windows_.at(wrapper, who).on_forward(*forward);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
      n_wrapped_[wrapper] += who.n;
    }
  }

  void on_step(const Event& event, const StepEvent& step, RankRange who, const NameTable& names) {
    const std::span<const NameId> layout = names.layout(step.layout);
    if (event.at.wrapper >= 0) {
      const WrapperKey wrapper = wrapper_of(event.at);
      ReductionWindow* const window = windows_.find(wrapper, who);
      if (window != nullptr) check(event, *window, step, {wrapper, who, layout}, names);
      return;
    }
    // An optimizer over several wrappers: each of them that holds one of its parameters.
    const RankWrapper first{to_int(event.rank), {event.at.attempt, -1}};
    std::map<RankWrapper, ReductionWindow>& windows = windows_.all();
    for (auto at = windows.lower_bound(first); at != windows.end(); ++at) {
      if (at->first.rank != first.rank || at->first.key.attempt != event.at.attempt) break;
      // A loop that has stopped to reduce by itself: its parameters belong to no wrapper from there on.
      const WrapEvent* const wrap = wrappers_.find(at->first.key);
      if (wrap != nullptr && !wrap->synchronizes) continue;
      check(event, at->second, step, {at->first.key, who, layout}, names);
    }
  }

  struct Where {
    WrapperKey wrapper;
    RankRange who;
    std::span<const NameId> layout;
  };

  bool is_used(const ReductionWindow::TensorState& tensor,
               const Where& where,
               const NameTable& names) const {
    if (tensor.absent || !tensor.contributed) return false;
    if (wrappers_.ignored(where.wrapper, tensor.name, names)) return false;
    return where.layout.empty() || Wrappers::contains(where.layout, tensor.name);
  }

  void check(const Event& event,
             ReductionWindow& window,
             const StepEvent& step,
             const Where& where,
             const NameTable& names) {
    const WrapperKey key = where.wrapper;
    const WrapEvent* wrap = wrappers_.find(key);
    const std::int32_t n = wrappers_.n_members(key, n_ranks_);
    if (n >= 2 && !step.skipped && wrap != nullptr) {
      for (const ReductionWindow::TensorState& tensor : window.tensors()) {
        if (!is_used(tensor, where, names)) continue;
        n_checked_ += where.who.n;
        if (!tensor.unreduced) continue;
        unreduced_.suspect({.key = {key, tensor.name},
                            .rank = event.rank,
                            .step = event.at.opt,
                            .sync = event.at.sync,
                            .evidence = window.evidence(*wrap, names)});
      }
      unreduced_.stepped(key, event.at.opt, where.who, n);
      if (where.who.first == 0 && window.reduced_repeatedly()) ++extra_reductions_;
    }
    window.restart();
  }

  std::int32_t n_members(const Event& event) const {
    return wrappers_.n_members(wrapper_of(event.at), n_ranks_);
  }

  /// Whether the program reduces by itself, without a wrapper.
  bool is_loop(WrapperKey key) const {
    const WrapEvent* const wrap = wrappers_.find(key);
    return wrap != nullptr && !wrap->synchronizes;
  }

  /// What all ranks' steps show the program to have reduced by itself. The last rank's step comes
  /// after what it uses.
  void take_own(const NameTable& names) {
    if (!added_.any()) return;
    for (const OwnReduction& own : added_.take()) {
      // Of a loop it is known that it reduces, also where ranks had the same gradients before.
      unreduced_.reduced_by_program(
          own.wrapper, own.step, is_loop(own.wrapper) ? own.used_alike(names) : own.reduced(names));
    }
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

  /// All ranks trained alone, and an average may still have been to come.
  bool is_meant_at_end(const UnreducedKey& key, const UnreducedTensor& tensor) const {
    return std::ssize(tensor.ranks) >= wrappers_.n_members(key.wrapper, n_ranks_) &&
           averages_.may_end_in(key.wrapper, key.interval, key.tensor);
  }

  /// Whether any rank ever computed a gradient for the parameter.
  bool is_used_somewhere(WrapperKey wrapper, NameId name) const {
    return std::any_of(windows_.all().begin(), windows_.all().end(), [&](const auto& entry) {
      return entry.first.key == wrapper && entry.second.ever_used(name);
    });
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  std::map<WrapperKey, std::int32_t> n_wrapped_;  // Ranks.
  RankWrapperMap<ReductionWindow> windows_;
  RankWrapperMap<std::int64_t> steps_;  // Of all optimizers; wrappers do not matter.
  Contributions added_;
  ParameterAverages averages_;
  UnreducedTensors unreduced_{averages_};
  Remarks wrapped_again_{LogKind::kWrappedAgain};
  std::int64_t n_checked_ = 0;
  std::int64_t extra_reductions_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_reduced_once(const LawPolicy& policy) {
  return std::make_unique<ReducedOnce>(policy);
}

}  // namespace lockstep::laws
