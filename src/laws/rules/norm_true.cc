// norm-true: between the reduction and the step, clipping scales all gradients by one factor, which
// follows from the limit and the true norm.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/in_step/part_factors.h"
#include "lockstep/laws/rules/detail/norm_bounds.h"
#include "lockstep/laws/rules/detail/open_ballots.h"
#include "lockstep/laws/rules/detail/own_sums.h"
#include "lockstep/laws/rules/detail/reduced/divisions_again.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kNormTrue = "norm-true";

/// What ranks are compared by, in the order of the ballot's words.
enum class ClipField : std::uint8_t { kCalls, kLimit, kType, kGradients, kNorm };

constexpr std::array<std::string_view, 5> kClipFields = {
    "calls", "limit", "norm_type", "gradients", "norm"};

constexpr std::int64_t kFewestForNone = 2;  // Calls without effect.
constexpr std::int32_t kForNone = 2;        // What a place is about, as an alignment has it.

/// What is wrong with a call that comes while no gradient waits for a step. Nothing where it may be there for
/// the norm alone: without a limit, or with one that is not reached.
std::optional<Complaint> clipped_for_none(const ClipEvent& clip) {
  if (clip.kind != ClipKind::kNorm || !std::isfinite(clip.limit)) return std::nullopt;
  if (clip.norm == 0.0) {
    return Complaint{"order",
                     "",
                     "gradients are clipped after they were cleared and before the next backward: "
                     "clipping has no effect",
                     Cause::kClipNotApplied};
  }
  if (clip.factor >= 1.0) return std::nullopt;
  return Complaint{"order",
                   "",
                   "gradients are clipped after the step that used them: clipping has no effect",
                   Cause::kClipNotApplied};
}

/// One rank's gradients since their last reduction.
struct ClipWindow {
  GradientsSeen reduced;
  GradientsSeen used;
  std::vector<ClipEvent> clips;  // No spans inside: safe to keep.
  bool contributed = false;      ///< Since the last reduction or step.
  /// By what calls have scaled contributions that no reduction has averaged.
  std::optional<double> early_factor{};
  bool used_up = false;        ///< A step has used what was reduced, and nothing has come since.
  std::int64_t n_in_time = 0;  ///< Calls that steps were taken after.
  /// What is wrong with the last call, unless a step comes before another contribution.
  std::optional<Complaint> for_none{};
  std::int64_t n_for_none = 0;  ///< Calls that no step was taken after.

  void take(const ClipEvent& clip) {
    if (used_up) {
      for_none = clipped_for_none(clip);
      return;
    }
    clips.push_back(clip);
    if (clip.kind != ClipKind::kNorm || !contributed) return;
    early_factor = early_factor.value_or(1.0) * clip.factor;
  }
};

std::vector<Rank> ranks_of(RankRange who) {
  std::vector<Rank> ranks;
  append(ranks, who);
  return ranks;
}

/// `limits`: by their ballot word.
std::string message_of(ClipField field,
                       const Ballot& ballot,
                       const std::map<std::uint64_t, double>& limits) {
  if (field == ClipField::kCalls)
    return "the ranks clip their gradients a different number of times";
  if (field == ClipField::kType) return "the ranks clip by norms of different types";
  if (field == ClipField::kNorm) return "the ranks compute different norms from equal gradients";
  std::string text = "the ranks clip to different limits:";
  for (const auto& [value, numbers] : ballot.sides(static_cast<std::size_t>(field))) {
    std::vector<Rank> ranks;
    for (const std::int32_t number : numbers) ranks.push_back(Rank{number});
    const auto limit = limits.find(value);
    text += (text.ends_with(':') ? " " : ", ") +
            exact(limit == limits.end() ? 0.0 : limit->second) + " on " + ranks_text(ranks);
  }
  return text;
}

bool is_before_a_step(const GradEvent& grad) {
  return grad.point == GradPoint::kPost || grad.point == GradPoint::kUsed ||
         grad.point == GradPoint::kInc;
}

class NormTrue final : public Law {
 public:
  explicit NormTrue(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks), whole_(policy.coverage <= 1), parts_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kNormTrue); }

  EventKinds reads() const override {
    return kinds_of<WrapEvent,
                    LossEvent,
                    GradEvent,
                    ClipEvent,
                    StepEvent,
                    CollectiveEvent,
                    CommHookEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = options.grad_post = options.grad_used = options.sketches = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad != nullptr && !is_before_a_step(*grad)) return;
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    if (call != nullptr && !OwnSums::is_one(*call)) return;
    const auto* loss = std::get_if<LossEvent>(&event.first->body);
    if (loss != nullptr && !divisions_.reads(*event.first, *loss)) return;
    // Contributions are only counted.
    const bool counted = grad != nullptr && grad->point == GradPoint::kInc;
    const bool alike = counted ? event.similarity <= Similarity::kSameShape : event.equal();
    const bool together = alike && wrappers_.are_replicas(event, n_ranks_) &&
                          counter_.counts(*event.first, all_ranks(event)) &&
                          windows_.shares(wrapper_of(event.first->at), all_ranks(event)) &&
                          sums_.shares(*event.first, all_ranks(event));
    deliver(event, together, [&](const Event& own, RankRange who) { observe(own, who, names); });
  }

  LawResult finish(const NameTable& /*names*/) override {
    ballots_.finish([&](const AlignmentKey& at, const Ballot& ballot) { compare(at, ballot); });
    early_.finish([&](const AlignmentKey& at, const Ballot& ballot) { judge_early(at, ballot); });
    std::vector<Finding> findings = findings_.take();
    std::ranges::copy(parts_.findings(), std::back_inserter(findings));
    LawResult result = conclude(kNormTrue,
                                std::move(findings),
                                n_checked_ + parts_.n_checked(),
                                "clip events of norms, after a reduction and before a step");
    result.advice = divisions_.advice();
    return result;
  }

 private:
  void observe(const Event& event, RankRange who, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      if (!is_before_a_step(*grad)) return;
      on_grad(event, *grad, who);
    } else if (const auto* clip = std::get_if<ClipEvent>(&event.body)) {
      if (clip->kind != ClipKind::kPart) return windows_.at(wrapper, who).take(*clip);
      parts_.on_clip(event, *clip, who);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, *step, who, names);
      sums_.restart(event, who);
    } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      sums_.on_call(event, *call, who);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* hook = std::get_if<CommHookEvent>(&event.body)) {
      divisions_.on_hook(wrapper, *hook);
    } else if (const auto* loss = std::get_if<LossEvent>(&event.body)) {
      divisions_.on_loss(event, *loss, who, {wrappers_.n_averaged(wrapper, n_ranks_), &names});
    }
  }

  void on_grad(const Event& event, const GradEvent& grad, RankRange who) {
    ClipWindow& window = windows_.at(wrapper_of(event.at), who);
    if (grad.point == GradPoint::kUsed) return window.used.keep(grad);
    if (window.used_up) judge_late(event, window, who);
    if (grad.point == GradPoint::kInc) {
      window.contributed = true;
      return window.reduced.digests.clear();  // What is added after a reduction is not part of it.
    }
    window.reduced.keep(grad);
    window.clips.clear();  // What came before is part of what was reduced.
    window.contributed = false;
    sums_.restart(event, who);
    if (window.early_factor) vote_early(event, *std::exchange(window.early_factor, {}), 0, who);
  }

  /// The next backward has begun, and no step has used what was clipped last.
  void judge_late(const Event& event, ClipWindow& window, RankRange who) {
    window.used_up = false;
    const std::optional<Complaint> complaint = std::exchange(window.for_none, std::nullopt);
    if (!complaint || ++window.n_for_none != kFewestForNone || window.n_in_time > 0) return;
    const AlignmentKey alignment{.wrapper = wrapper_of(event.at), .what = kForNone};
    report(event, {alignment, who, {}, window}, complaint, "clip");
  }

  // -- contributions that were clipped before a reduction averaged them

  /// `used`: what the step then uses, where nothing but the program has reduced it; else 0.
  void vote_early(const Event& event, double factor, std::uint64_t used, RankRange who) {
    const AlignmentKey alignment{wrapper_of(event.at), event.at.sync, 1, 0, 0};
    const std::array<std::uint64_t, 2> words = {std::bit_cast<std::uint64_t>(factor), used};
    early_.add(alignment,
               event,
               {words, who},
               wrappers_.n_members(alignment.wrapper, n_ranks_),
               [&](const AlignmentKey& at, const Ballot& ballot) { judge_early(at, ballot); });
  }

  // The mean of gradients that were all scaled by one factor is the scaled mean.
  void judge_early(const AlignmentKey& alignment, const Ballot& ballot) {
    constexpr std::string_view kField = "order";
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous() || !findings_.wants(alignment, kField)) return;
    // Nothing has brought together what ranks clipped apart.
    if (!ballot.minority(1).empty()) return;
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = "clip";
    finding.field = kField;
    finding.step = ballot.majority_opt();
    finding.message =
        "each rank clipped its gradients before the reduction averaged them, by different factors:";
    for (const auto& [value, numbers] : ballot.sides(0)) {
      std::vector<Rank> ranks;
      for (const std::int32_t number : numbers) ranks.push_back(Rank{number});
      const double factor = std::bit_cast<double>(value);
      finding.message += (finding.message.ends_with(':') ? " " : ", ") + exact(factor) + " on " +
                         ranks_text(ranks);
      // Where the limit was not reached, too: it was measured by a norm that nothing had averaged.
      finding.ranks.insert(finding.ranks.end(), ranks.begin(), ranks.end());
    }
    std::sort(finding.ranks.begin(), finding.ranks.end());
    finding.cause = Cause::kClipBeforeSync;
    findings_.add(alignment, kField, std::move(finding));
  }

  void on_step(const Event& event, const StepEvent& step, RankRange who, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    ClipWindow* const window = windows_.find(wrapper, who);
    if (window == nullptr) return;
    window->for_none.reset();  // A step of another optimizer uses it.
    if (window->early_factor && window->used.any()) {
      vote_early(event, *window->early_factor, window->used.hash(), who);
    }
    window->contributed = false;
    window->early_factor.reset();
    if (!window->reduced.any()) return;
    window->used_up = true;
    window->n_in_time += std::ssize(window->clips);
    const AlignmentKey alignment = counter_.next(event, 0, kNoLayout, who);
    if (!step.skipped) {
      if (window->clips.empty()) {
        judge_sums(event, {alignment, who, step, *window}, names);
        divisions_.on_step(event,
                           step,
                           {wrappers_.find(wrapper), wrappers_.n_members(wrapper, n_ranks_), who},
                           {window->reduced, window->used},
                           names);
      }
      for (const ClipEvent& clip : window->clips) {
        if (clip.kind == ClipKind::kNorm)
          judge(event, {alignment, who, step, *window}, clip, names);
      }
      // A rank that has joined takes its sharded optimizer's steps, but no turns of the loop.
      const bool has_joined = event.at.micro < 0;
      if (!has_joined) vote(event, alignment, *window, who);
    }
    window->clips.clear();
    window->reduced.digests.clear();  // A step may come that no recorder looked at.
  }

  // -- one rank's own arithmetic

  struct Place {
    AlignmentKey alignment;
    RankRange who;
    StepEvent step;
    const ClipWindow& window;
  };

  void judge(const Event& event,
             const Place& place,
             const ClipEvent& clip,
             const NameTable& names) {
    n_checked_ += place.who.n;
    const GradientsSeen& reduced = place.window.reduced;
    std::optional<Complaint> complaint = wrong_factor(clip, reduced.dtype);
    const bool alone = place.window.clips.size() == 1;
    if (!complaint && alone && whole_ &&
        is_only_clipped(clip, reduced, place.window.used, place.step.scale, names)) {
      complaint = wrong_norm(clip,
                             bounds_of(reduced, clip, names),
                             place.step.scale,
                             wrappers_.n_members(wrapper_of(event.at), n_ranks_));
    }
    if (!complaint && own_sums(event, place.who) != nullptr) {
      complaint =
          recounted_norm(clip, reduced, wrappers_.n_members(wrapper_of(event.at), n_ranks_));
    }
    if (!complaint && alone) {
      complaint = wrong_scaling(clip, reduced, place.window.used, place.step.scale, names);
    }
    report(event, place, complaint, "clip");
  }

  /// What the program has summed over the wrapper's ranks since its reduction; null: nothing.
  const OwnSums::Calls* own_sums(const Event& event, RankRange who) {
    const OwnSums::Calls* const sums = sums_.find(event, who);
    const WrapEvent* const wrap = wrappers_.find(wrapper_of(event.at));
    return sums != nullptr && wrap != nullptr && wrap->group == sums->group ? sums : nullptr;
  }

  /// Averages that the program has summed over the ranks once more.
  void judge_sums(const Event& event, const Place& place, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    const OwnSums::Calls* const sums = own_sums(event, place.who);
    if (sums == nullptr) return;
    n_checked_ += place.who.n;
    report(event,
           place,
           summed_again(place.window.reduced,
                        place.window.used,
                        sums->counts,
                        wrappers_.n_members(wrapper, n_ranks_),
                        names),
           "step");
  }

  void report(const Event& event,
              const Place& place,
              const std::optional<Complaint>& complaint,
              std::string_view kind) {
    if (!complaint) return;
    // Of ranks with the same mistake, the first place; a rank that comes later adds itself.
    if (!findings_.wants(place.alignment, complaint->field)) {
      findings_.add_ranks(place.alignment, complaint->field, ranks_of(place.who));
      return;
    }
    Finding finding;
    finding.attempt = place.alignment.wrapper.attempt;
    finding.event = kind;
    finding.field = complaint->field;
    finding.tensor = complaint->tensor;
    finding.step = event.at.opt;
    finding.message = complaint->message;
    finding.cause = complaint->cause;
    finding.ranks = ranks_of(place.who);
    findings_.add(place.alignment, complaint->field, std::move(finding));
  }

  // -- all ranks clip alike

  void vote(const Event& event,
            const AlignmentKey& alignment,
            const ClipWindow& window,
            RankRange who) {
    std::uint64_t limits = 0;
    std::uint64_t types = 0;
    std::uint64_t norms = 0;
    const auto fold = [](std::uint64_t hash, double value) {
      return (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
    };
    for (const ClipEvent& clip : window.clips) {
      limits = fold(limits, clip.limit);
      types = fold(types, clip.kind == ClipKind::kNorm ? clip.norm_type : -1.0);
      if (clip.kind == ClipKind::kNorm) norms = fold(norms, clip.norm);
    }
    const std::array<std::uint64_t, kClipFields.size()> words = {
        window.clips.size(), limits, types, window.reduced.hash(), norms};
    limits_of_[limits] = window.clips.empty() ? 0.0 : window.clips.front().limit;
    ballots_.add(alignment,
                 event,
                 {words, who},
                 wrappers_.n_members(alignment.wrapper, n_ranks_),
                 [&](const AlignmentKey& at, const Ballot& ballot) { compare(at, ballot); });
  }

  void compare(const AlignmentKey& alignment, const Ballot& ballot) {
    // Where gradients differ, as a lossy or local reduction leaves them, so do their norms.
    if (ballot.unanimous()) return;
    for (const ClipField field :
         {ClipField::kCalls, ClipField::kLimit, ClipField::kType, ClipField::kNorm}) {
      if (field == ClipField::kNorm &&
          !ballot.minority(static_cast<std::size_t>(ClipField::kGradients)).empty()) {
        return;
      }
      const auto word = static_cast<std::size_t>(field);
      std::vector<Rank> ranks = ballot.minority(word);
      if (ranks.empty()) continue;
      const std::string name(kClipFields[word]);
      if (!findings_.wants(alignment, name)) return;
      Finding finding;
      finding.attempt = alignment.wrapper.attempt;
      finding.event = "clip";
      finding.field = name;
      finding.ranks = std::move(ranks);
      finding.step = ballot.majority_opt();
      finding.message = message_of(field, ballot, limits_of_);
      if (field != ClipField::kNorm) finding.cause = Cause::kClipOneRank;
      findings_.add(alignment, name, std::move(finding));
      return;
    }
  }

  std::int32_t n_ranks_;
  bool whole_;  ///< Sketches are of whole tensors.
  Wrappers wrappers_;
  Counter counter_;
  RankWrapperMap<ClipWindow> windows_;
  OwnSums sums_;
  OpenBallots ballots_;
  OpenBallots early_;
  std::map<std::uint64_t, double> limits_of_;  // By their ballot word: a handful.
  EarliestFindings findings_;
  DivisionsAgain divisions_;
  PartFactors parts_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_norm_true(const LawPolicy& policy) {
  return std::make_unique<NormTrue>(policy);
}

}  // namespace lockstep::laws
