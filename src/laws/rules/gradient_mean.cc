// gradient-mean: what a reduction publishes is the declared mean of what went into it.
#include <algorithm>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/laws/rules/detail/declared_mean.h"
#include "lockstep/laws/rules/detail/gradient_advice.h"
#include "lockstep/laws/rules/detail/losses/loss_kinds.h"
#include "lockstep/laws/rules/detail/mean/ended_contributions.h"
#include "lockstep/laws/rules/detail/mean/gradient_travel.h"
#include "lockstep/laws/rules/detail/mean/local_sources.h"
#include "lockstep/laws/rules/detail/mean/mean_judge.h"
#include "lockstep/laws/rules/detail/mean/open_reductions.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kGradientMean = "gradient-mean";

class GradientMean final : public Law {
 public:
  explicit GradientMean(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks),
        travel_(policy.hooks_may_lose),
        judge_(policy),
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
                    LogEvent,
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
    losses_.on_event(event, wrappers_.n_averaged(wrapper_of(event.at), n_ranks_));
    noticed_.on_event(event);
    observe(event, one_rank(event), names);
    follow(event, names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    const auto* grad = std::get_if<GradEvent>(&first.body);
    if (grad != nullptr && !is_read(*grad)) return follow(event, names);
    if (std::holds_alternative<LogEvent>(first.body)) {
      return each(event, [&](const Event& own) { on_event(own, names); });
    }
    if (const auto* step = std::get_if<StepEvent>(&first.body))
      return noticed_.on_step(first, *step, all_ranks(event));
    if (std::holds_alternative<LossEvent>(first.body)) {
      losses_.on_cohort(event, wrappers_.n_averaged(wrapper_of(first.at), n_ranks_));
      noticed_.on_losses(event);
      return follow(event, names);
    }
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
    std::vector<Finding> findings = judge_.take_findings();
    for (Finding& finding : own_means_.take_findings()) findings.push_back(std::move(finding));
    LawResult result = conclude(kGradientMean,
                                std::move(findings),
                                judge_.n_checked() + own_means_.n_checked(),
                                judge_.missing().empty()
                                    ? "grad events at pre and post with sketches, from all ranks"
                                    : std::string_view(judge_.missing()));
    result.advice = noticed_.advice(names);
    for (Advice& advice : own_means_.advice()) result.advice.push_back(std::move(advice));
    for (Advice& advice : judge_.advice()) result.advice.push_back(std::move(advice));
    for (Advice& advice : ended_.advice(names)) result.advice.push_back(std::move(advice));
    for (Advice& advice : losses_.advice(names)) result.advice.push_back(std::move(advice));
    return result;
  }

 private:
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
    const RankRange all = all_ranks(event);
    return wrappers_.are_replicas(event, n_ranks_) &&
           !std::holds_alternative<PhaseEvent>(event.first->body) &&
           counter_.counts(*event.first, all) && sources_.shares(*event.first, all);
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      on_grad(event, *grad, who, names);
    } else if (const auto* batch = std::get_if<BatchEvent>(&event.body)) {
      sources_.on_batch(event, *batch, who);
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      sources_.on_phase(event, *phase);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
      noticed_.on_wrap(event, *wrap, who);
    } else if (const auto* hook = std::get_if<CommHookEvent>(&event.body)) {
      travel_.on_hook(event, *hook);
    } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      travel_.on_call(call->signature);
      noticed_.on_call(event, *call, who);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      noticed_.on_step(event, *step, who);
    }
  }

  void on_grad(const Event& event, const GradEvent& grad, RankRange who, const NameTable& names) {
    if (!is_read(grad)) return;
    const AlignmentKey alignment = meeting_of(event, grad, who);
    OpenReduction& open = open_.at(alignment);
    if (grad.point == GradPoint::kPre) {
      Local local = sources_.source_of(open, event, grad, who);
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
    OpenReduction& open = open_.at(alignment);
    open.add_all(event, sources_.source_of(open, first, grad, all));
    for (std::int32_t rank = 0; rank < event.n_ranks() && added_.any(); ++rank) {
      keep_micro_steps(open, {rank, alignment.wrapper});
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
    open_.close(alignment);
  }

  void publish(OpenReduction& open, const Event& event, const GradEvent& grad, RankRange who) {
    open.sketched = open.sketched && grad.sketches.size() == grad.digests.size();
    open.n_published += who.n;
    if (who.first <= open.opt_of) {
      open.opt_of = who.first;
      open.opt = event.at.opt;
    }
    sources_.on_reduction(event, grad.layout, who);
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
    std::sort(open.locals.begin(), open.locals.end(), [](const Local& a, const Local& b) {
      return a.rank < b.rank;
    });
    for (Published& published : open.published)
      std::sort(published.ranks.begin(), published.ranks.end());
    std::sort(
        open.published.begin(), open.published.end(), [](const Published& a, const Published& b) {
          return a.ranks.front() < b.ranks.front();
        });
    if (open.sketched) noticed_.on_reduction(alignment, open, names);
    if (open.sketched) ended_.on_reduction(alignment, open);
    judge_.judge({alignment, open, wrappers_, names}, travel_);
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  Counter counter_;
  LocalSources sources_;
  OpenReductions open_;
  GradientTravel travel_;
  MeanJudge judge_;
  Contributions added_;
  OwnMeans own_means_;
  GradientAdvice noticed_;
  EndedContributions ended_;
  LossKinds losses_;
};

}  // namespace

std::unique_ptr<Law> make_gradient_mean(const LawPolicy& policy) {
  return std::make_unique<GradientMean>(policy);
}

}  // namespace lockstep::laws
