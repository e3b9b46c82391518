// gradient-mean: what a reduction publishes is the declared mean of what went into it.
#include <optional>
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/laws/detail/wrong_mean.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/laws/rules/detail/declared_mean.h"
#include "lockstep/laws/rules/detail/gradient_advice.h"
#include "lockstep/laws/rules/detail/open_reduction.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kGradientMean = "gradient-mean";

class GradientMean final : public Law {
 public:
  explicit GradientMean(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks),
        exact_(policy.exact),
        hooks_may_lose_(policy.hooks_may_lose),
        declared_(policy.declared_mean),
        own_means_(policy.exact) {}

  const LawInfo& info() const override { return *find_law(kGradientMean); }

  EventKinds reads() const override {
    return kinds_of<GradEvent,
                    BatchEvent,
                    PhaseEvent,
                    WrapEvent,
                    CollectiveEvent,
                    StepEvent,
                    ForwardEvent,
                    BackwardEvent,
                    ZeroGradEvent,
                    CommHookEvent,
                    LossEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = true;
    options.grad_post = true;
    options.grad_used = true;
    options.sketches = true;
    options.collectives = true;
    options.zero_grads = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    observe(event, one_rank(event), names);
    follow(event, names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    const auto* grad = std::get_if<GradEvent>(&first.body);
    if (grad != nullptr && !is_read(*grad)) return follow(event, names);
    if (const auto* step = std::get_if<StepEvent>(&first.body))
      return noticed_.on_step(first, *step);
    if (std::holds_alternative<LossEvent>(first.body)) return follow(event, names);
    const bool alike = knows_all(event) && event.similarity <= Similarity::kSameShape;
    if (alike && grad != nullptr && grad->point == GradPoint::kPre) {
      on_locals(event, *grad, names);
    } else if (alike && event.equal()) {
      observe(first, all_ranks(event), names);
    } else {
      return Law::on_cohort(event, names);
    }
    follow(event, names);
  }

  LawResult finish(const NameTable& names) override {
    for (Finding& finding : own_means_.take_findings()) findings_.push_back(std::move(finding));
    for (Finding& finding : uneven_.take()) findings_.push_back(std::move(finding));
    LawResult result = conclude(kGradientMean,
                                std::move(findings_),
                                n_checked_ + own_means_.n_checked(),
                                not_checkable_.empty()
                                    ? "grad events at pre and post with sketches, from all ranks"
                                    : not_checkable_);
    result.advice = noticed_.advice(names);
    for (Advice& advice : own_means_.advice()) result.advice.push_back(std::move(advice));
    return result;
  }

 private:
  void note_width(const Signature& call) {
    const bool narrow = call.dtype == DType::kF16 || call.dtype == DType::kBF16;
    if (narrow && call.op == CollectiveOp::kAllReduce) narrow_ = call.dtype;
    sends_bytes_ = sends_bytes_ || call.dtype == DType::kU8;
  }

  /// What backward passes add while none of them reduces.
  void follow(const Event& event, const NameTable& names) {
    added_.on_event(event, names, wrappers_.n_members(wrapper_of(event.at), n_ranks_));
    judge_own(names);
  }

  void follow(const CohortEvent& event, const NameTable& names) {
    added_.on_cohort(event, names, wrappers_.n_members(wrapper_of(event.first->at), n_ranks_));
    judge_own(names);
  }

  void judge_own(const NameTable& names) {
    if (!added_.any()) return;
    for (const OwnReduction& own : added_.take()) own_means_.judge(own, wrappers_, names);
  }

  static bool is_read(const GradEvent& grad) {
    return grad.point == GradPoint::kPre || grad.point == GradPoint::kPost;
  }

  /// Whether all ranks of a cohort, and no others, reduce together and were equal until now.
  bool knows_all(const CohortEvent& event) const {
    const Position& at = event.first->at;
    const RankRange all = all_ranks(event);
    return wrappers_.are_replicas(event, n_ranks_) && evaluating_.empty() &&
           !std::holds_alternative<PhaseEvent>(event.first->body) &&
           counter_.counts(*event.first, all) && last_reduction_.shares(wrapper_of(at), all) &&
           batches_.shares(wrapper_of(at), all) && batches_.shares({at.attempt, -1}, all);
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      on_grad(event, *grad, who, names);
    } else if (const auto* batch = std::get_if<BatchEvent>(&event.body)) {
      if (evaluating_.contains(event.rank)) return;
      Batches& batches = batches_.at(wrapper_of(event.at), who);
      if (batches.reduced) batches = {};
      batches.add(*batch);
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      if (phase->kind == PhaseKind::kEval) evaluating_.insert(event.rank);
      if (phase->kind == PhaseKind::kTrain) evaluating_.erase(event.rank);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* hook = std::get_if<CommHookEvent>(&event.body)) {
      hooks_[wrapper_of(event.at)] = hook->effect;
    } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      note_width(call->signature);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      noticed_.on_step(event, *step);
    }
  }

  void on_grad(const Event& event, const GradEvent& grad, RankRange who, const NameTable& names) {
    if (!is_read(grad)) return;
    const AlignmentKey alignment = meeting_of(event, grad, who);
    OpenReduction& open = open_at(alignment);
    if (grad.point == GradPoint::kPre) {
      Local local = source_of(open, event, grad, who);
      local.rank = to_int(event.rank);
      open.add(grad, local);
      keep_micro_steps(open, {local.rank, alignment.wrapper});
    } else {
      publish(open, event, grad, who);
    }
    judge_if_complete(alignment, open, names);
  }

  /// The local gradients of all ranks.
  void on_locals(const CohortEvent& event, const GradEvent& grad, const NameTable& names) {
    const Event& first = *event.first;
    const RankRange all = all_ranks(event);
    const AlignmentKey alignment = meeting_of(first, grad, all);
    OpenReduction& open = open_at(alignment);
    const Local source = source_of(open, first, grad, all);
    for (Local local = source; local.rank < event.n_ranks(); ++local.rank) {
      open.add(*std::get_if<GradEvent>(&event.body_of(local.rank)), local);
      keep_micro_steps(open, {local.rank, alignment.wrapper});
    }
    judge_if_complete(alignment, open, names);
  }

  /// They count one by one where their denominators differ. Without a reduction more will be added.
  void keep_micro_steps(OpenReduction& open, const RankWrapper& place) {
    if (!added_.any()) return;
    Contributions::Window* const window = added_.find(place);
    if (window == nullptr || window->quiet || window->added.size() < 2) return;
    open.micro.push_back({place.rank, std::move(window->added)});
    window->added.clear();
  }

  /// What goes into a reduction and what comes out of it meet.
  AlignmentKey meeting_of(const Event& event, const GradEvent& grad, RankRange who) {
    AlignmentKey alignment =
        counter_.next(event, static_cast<std::int32_t>(grad.point), grad.layout, who);
    alignment.what = 0;
    return alignment;
  }

  void judge_if_complete(const AlignmentKey& alignment,
                         OpenReduction& open,
                         const NameTable& names) {
    const std::int32_t n = wrappers_.n_members(alignment.wrapper, n_ranks_);
    if (static_cast<std::int32_t>(open.locals.size()) < n || open.n_published < n) return;
    judge(alignment, open, names);
    close(alignment);
  }

  OpenReduction& open_at(const AlignmentKey& alignment) {
    if (alignment == last_at_ && last_ != nullptr) return *last_;
    const auto [at, is_new] = open_.try_emplace(alignment);
    if (is_new) std::swap(at->second, spare_);
    last_at_ = alignment;
    last_ = &at->second;
    return at->second;
  }

  void close(const AlignmentKey& alignment) {
    const auto at = open_.find(alignment);
    std::swap(at->second, spare_);  // Keeps its memory for the next one.
    spare_.restart();
    open_.erase(at);
    last_ = nullptr;
  }

  /// A local gradient without its rank and place: which batches it came from.
  Local source_of(OpenReduction& open, const Event& event, const GradEvent& grad, RankRange who) {
    const WrapperKey wrapper = wrapper_of(event.at);
    // A batch that was recorded outside any wrapper feeds all of them.
    const Batches* known = batches_.find(wrapper, who);
    if (known == nullptr) known = batches_.find({event.at.attempt, -1}, who);
    const Batches none;
    const Batches& batches = known == nullptr ? none : *known;
    if (open.batches.empty() || open.batches.back() != batches) open.batches.push_back(batches);
    Local source{.batches = open.batches.size() - 1};
    for (const auto& [layout, opt] : last_reduction_.at(wrapper, who)) {
      if (layout == grad.layout) source.adds_to_earlier = opt == event.at.opt;
    }
    return source;
  }

  void note_reduction(const Event& event, LayoutId layout, RankRange who) {
    const WrapperKey wrapper = wrapper_of(event.at);
    Reductions& last = last_reduction_.at(wrapper, who);
    const auto known = std::find_if(
        last.begin(), last.end(), [&](const auto& entry) { return entry.first == layout; });
    if (known == last.end()) {
      last.emplace_back(layout, event.at.opt);
    } else {
      known->second = event.at.opt;
    }
    for (const WrapperKey key : {wrapper, WrapperKey{event.at.attempt, -1}}) {
      if (Batches* const batches = batches_.find(key, who)) batches->reduced = true;
    }
  }

  void publish(OpenReduction& open, const Event& event, const GradEvent& grad, RankRange who) {
    open.sketched = open.sketched && grad.sketches.size() == grad.digests.size();
    open.n_published += who.n;
    if (who.first <= open.opt_of) {
      open.opt_of = who.first;
      open.opt = event.at.opt;
    }
    note_reduction(event, grad.layout, who);
    for (Published& published : open.published) {
      if (std::equal(grad.digests.begin(),
                     grad.digests.end(),
                     published.digests.begin(),
                     published.digests.end())) {
        append(published.ranks, who);
        return;
      }
    }
    open.published.push_back({{grad.digests.begin(), grad.digests.end()},
                              {grad.sketches.begin(), grad.sketches.end()},
                              {grad.undefined.begin(), grad.undefined.end()},
                              {}});
    append(open.published.back().ranks, who);
  }

  void judge(const AlignmentKey& alignment, OpenReduction& open, const NameTable& names) {
    uneven_.on_reduction(alignment, open.locals);
    if (!open.sketched) return;
    std::sort(open.locals.begin(), open.locals.end(), [](const Local& a, const Local& b) {
      return a.rank < b.rank;
    });
    for (Published& published : open.published)
      std::sort(published.ranks.begin(), published.ranks.end());
    std::sort(
        open.published.begin(), open.published.end(), [](const Published& a, const Published& b) {
          return a.ranks.front() < b.ranks.front();
        });
    noticed_.on_reduction(alignment, open, names);
    std::optional<Declared> declared = declared_of(open, meant_by(open, names));
    if (!declared && judge_micro_steps(alignment, open, names)) return;
    if (!declared) declared = plain_mean_if_alike(open);
    if (!declared) {
      not_checkable_ = "batch events whose denominators say how micro-batches are weighted";
      return;
    }
    const Manner manner = manner_of(alignment.wrapper);
    const Expected expected{*declared, manner};
    std::vector<Judged> results;
    results.reserve(open.published.size());
    for (const Published& published : open.published) {
      results.push_back(judge_published(alignment, open, published, expected, names));
    }
    // Members of one reduction get one result: where some of them got the right one, it was lost
    // after the reduction.
    const bool was_right = std::any_of(
        results.begin(), results.end(), [](const Judged& side) { return side.wrong.empty(); });
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].wrong.empty()) continue;
      report(alignment, open, open.published[i], {expected, results[i], was_right}, names);
    }
  }

  /// How a wrapper's gradients travel, as far as its hook says.
  struct Manner {
    HookEffect effect = HookEffect::kMean;
    std::optional<DType> wire = {};  ///< Less precise than the gradients: their bound is its own.
  };

  Manner manner_of(WrapperKey wrapper) const {
    const auto hook = hooks_.find(wrapper);
    if (hook == hooks_.end() || !hooks_may_lose_) return {};
    const bool narrow = narrow_ != DType::kF32 && !sends_bytes_;
    if (hook->second != HookEffect::kRounded || !narrow) return {.effect = hook->second};
    return {.effect = hook->second, .wire = narrow_};
  }

  /// Nothing that a hook does on purpose is held against it.
  void spare(const Manner& manner, const Declared& declared, Judged& judged) {
    if (judged.wrong.empty() || manner.effect == HookEffect::kMean || manner.wire) return;
    const bool rounds = manner.effect == HookEffect::kRounded;
    if (rounds && is_certain(judged, declared.weights, exact_)) return;
    n_checked_ -= std::ssize(judged.wrong);
    judged.wrong.clear();
    judged.tensors.clear();
    not_checkable_ = rounds ? "reductions without a hook that compresses gradients"
                            : "reductions without a hook that does something else than averaging";
  }

  struct Expected {
    const Declared& declared;
    const Manner& manner;
  };

  Judged judge_published(const AlignmentKey& alignment,
                         const OpenReduction& open,
                         const Published& published,
                         const Expected& expected,
                         const NameTable& names) {
    const auto build = [&](std::size_t i) {
      const DType dtype = expected.manner.wire.value_or(open.dtype);
      OneReduction one{{}, &published.sketches[i], open.n_elems[i], dtype};
      for (const Local& local : open.locals) one.locals.push_back(open.sketch(local, i));
      return one;
    };
    const bool exact = exact_ && !expected.manner.wire;
    const auto accepts = [&](const OneReduction& one) {
      return expected.declared.accepts(one, exact);
    };
    Judged judged = judge_tensors(alignment, published, names, build, accepts);
    spare(expected.manner, expected.declared, judged);
    return judged;
  }

  template <typename Build, typename Accepts>
  Judged judge_tensors(const AlignmentKey& alignment,
                       const Published& published,
                       const NameTable& names,
                       Build build,
                       Accepts accepts) {
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    Judged judged;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (bit(published.undefined, i) || wrappers_.ignored(alignment.wrapper, layout[i], names))
        continue;
      OneReduction one = build(i);
      const bool unused = std::all_of(one.locals.begin(),
                                      one.locals.end(),
                                      [](const Sketch* local) { return local == nullptr; });
      if (unused) continue;  // Whatever .grad holds then did not come from this reduction.
      ++n_checked_;
      if (accepts(one)) {
        judged.right.push_back(std::move(one));
      } else {
        judged.wrong.push_back(std::move(one));
        judged.tensors.push_back(layout[i]);
      }
    }
    return judged;
  }

  /// Micro-steps with different denominators: each of them has a weight of its own. Returns: whether
  /// they are known one by one.
  bool judge_micro_steps(const AlignmentKey& alignment,
                         const OpenReduction& open,
                         const NameTable& names) {
    const std::optional<MicroMean> mean = MicroMean::of(open, meant_by(open, names));
    if (!mean || manner_of(alignment.wrapper).effect != HookEffect::kMean) return false;
    for (const Published& published : open.published) {
      const Judged judged = judge_tensors(
          alignment,
          published,
          names,
          [&](std::size_t i) { return mean->reduction(i, published.sketches[i]); },
          [&](const OneReduction& one) { return mean->accepts(one, exact_); });
      if (judged.wrong.empty()) continue;
      const std::optional<Fit> found = mean->explain(judged.wrong, exact_);
      for (const NameId tensor : judged.tensors) {
        if (reported_.contains({alignment.wrapper, tensor})) continue;
        Finding finding = wrong_mean(alignment, open, published, tensor, names);
        finding.declared = mean->declared().values();
        if (found) explain_mean(*found, mean->culprit(*found), finding);
        keep(alignment, tensor, mean->is_even(), std::move(finding));
      }
    }
    return true;
  }

  void keep(const AlignmentKey& alignment, NameId tensor, bool is_even, Finding finding) {
    if (!is_even) {
      return uneven_.suspect({alignment.wrapper, tensor}, alignment.sync, std::move(finding));
    }
    reported_.insert({alignment.wrapper, tensor});
    findings_.push_back(std::move(finding));
  }

  struct Broken {
    const Expected& expected;
    const Judged& judged;
    bool was_right = false;  ///< Other ranks were given the declared mean.
  };

  void report(const AlignmentKey& alignment,
              const OpenReduction& open,
              const Published& published,
              const Broken& broken,
              const NameTable& names) {
    const Weights& declared = broken.expected.declared.weights;
    const bool bounded = broken.expected.manner.wire.has_value();
    const bool exact = exact_ && !bounded;
    const std::optional<Fit> found = fit(broken.judged.wrong, declared, exact);
    const bool only_some = hits_values(found, broken.judged, exact);
    for (const NameId tensor : broken.judged.tensors) {
      if (!reported_.insert({alignment.wrapper, tensor}).second) continue;
      Finding finding = wrong_mean(alignment, open, published, tensor, names);
      finding.declared = declared.values();
      if (found) explain_mean(*found, culprit_of(*found, open), finding);
      if (broken.was_right) {
        finding.message += "; other ranks were given the right one";
        finding.cause = Cause::kSdcAfterReduce;
      } else if (finding.cause == Cause::kNone && narrow_ != DType::kF32 && !bounded) {
        finding.message += "; gradients travel as " + std::string(name_of(narrow_));
        finding.cause = narrow_ == DType::kBF16 ? Cause::kBf16HopRounding : Cause::kFp16SumOverflow;
      } else if (only_some) {
        finding.message += "; other tensors of this reduction are right";
        finding.cause = Cause::kSdcBeforeReduce;
      }
      findings_.push_back(std::move(finding));
    }
  }

  std::string_view meant_by(const OpenReduction& open, const NameTable& names) const {
    if (!declared_.empty()) return declared_;
    return names.text(open.batches_of(open.locals.front()).declared);
  }

  std::int32_t n_ranks_;
  bool exact_;
  bool hooks_may_lose_;
  std::string declared_;
  DType narrow_ = DType::kF32;  // Of all reductions, where gradients travel as halves.
  bool sends_bytes_ = false;    // Some call's numbers are bytes.
  std::map<WrapperKey, HookEffect> hooks_;
  Wrappers wrappers_;
  Contributions added_;
  OwnMeans own_means_;
  Counter counter_;
  RankWrapperMap<Batches> batches_;  // Of the current reduction.
  using Reductions = std::vector<std::pair<LayoutId, std::int32_t>>;
  RankWrapperMap<Reductions> last_reduction_;  // The step number of each layout's.
  std::set<Rank> evaluating_;
  std::map<AlignmentKey, OpenReduction> open_;
  OpenReduction spare_;  // Empty, with memory.
  AlignmentKey last_at_;
  OpenReduction* last_ = nullptr;  // What open_ holds at last_at_.
  std::set<std::pair<WrapperKey, NameId>> reported_;
  GradientAdvice noticed_;
  UnevenWindows uneven_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
  std::string not_checkable_;
};

}  // namespace

std::unique_ptr<Law> make_gradient_mean(const LawPolicy& policy) {
  return std::make_unique<GradientMean>(policy);
}

}  // namespace lockstep::laws
