// accumulated-once: what enters a reduction is what was there plus this window's contributions.
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/accumulation.h"
#include "lockstep/laws/rules/detail/in_step/single_contributions.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kAccumulatedOnce = "accumulated-once";

class AccumulatedOnce final : public Law {
 public:
  explicit AccumulatedOnce(const LawPolicy& policy)
      : exact_(policy.exact), whole_(policy.coverage <= 1) {}

  const LawInfo& info() const override { return *find_law(kAccumulatedOnce); }

  EventKinds reads() const override {
    return kinds_of<WrapEvent, GradEvent, ZeroGradEvent, ClipEvent, StepEvent, PhaseEvent>();
  }

  void require(RecordOptions& options) const override {
    options.grad_local = options.grad_post = options.grad_used = options.sketches = true;
    options.zero_grads = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      return wrappers_.on_wrap(event, *wrap);
    }
    if (is_read(event.body)) {
      part(wrapper_of(event.at), names);
      observe(event, names);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    if (std::holds_alternative<WrapEvent>(first.body)) return Law::on_cohort(event, names);
    if (!is_read(first.body)) return;
    const WrapperKey wrapper = wrapper_of(first.at);
    if (SingleContributions* const together = in_step(wrapper)) {
      if (together->take(event)) return;
      part(wrapper, names);
    }
    each(event, [&](const Event& own) { observe(own, names); });
  }

  LawResult finish(const NameTable& names) override {
    std::vector<Finding> findings;
    for (auto& [key, broken] : broken_) findings.push_back(to_finding(key, broken, names));
    for (const auto& [wrapper, together] : together_) n_checked_ += together.n_checked();
    return conclude(kAccumulatedOnce,
                    std::move(findings),
                    n_checked_,
                    "grad events at inc and pre with sketches");
  }

 private:
  static bool is_read(const EventBody& body) {
    const auto* grad = std::get_if<GradEvent>(&body);
    // The base is what the window itself knows; recorders of other programs give it no sketches.
    return grad == nullptr || (grad->point != GradPoint::kBase && grad->point != GradPoint::kRedo);
  }

  // -- ranks in step

  /// Null where the ranks of this wrapper have parted.
  SingleContributions* in_step(WrapperKey wrapper) {
    if (apart_.contains(wrapper)) return nullptr;
    return &together_[wrapper];
  }

  /// From here on, each of this wrapper's ranks is judged by itself.
  void part(WrapperKey wrapper, const NameTable& names) {
    if (!apart_.insert(wrapper).second) return;
    const auto known = together_.find(wrapper);
    if (known == together_.end()) return;
    const std::int64_t n_checked = n_checked_;
    const SingleContributions together = std::move(known->second);
    together_.erase(known);
    together.replay([&](const Event& event) { observe(event, names); });
    n_checked_ = n_checked + together.n_checked();  // What is replayed was counted before.
  }

  // -- one rank

  void observe(const Event& event, const NameTable& names) {
    const RankWrapper place = rank_wrapper_of(event);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      on_grad(event, *grad, windows_[place], names);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      on_step(event, windows_[place], *step, names);
    } else if (const auto* clear = std::get_if<ZeroGradEvent>(&event.body)) {
      Window& window = windows_[place];
      window.strict = true;
      each_named(window, names.layout(clear->layout), names, [&](Tensor& t) {
        t.has.clear();
        t.miscount.reset();
        t.odd.reset();
        t.cleared = window.evaluating && (t.trained || t.cleared);
        t.trained = t.added = false;
      });
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      if (phase->kind == PhaseKind::kTrain || phase->kind == PhaseKind::kEval) {
        windows_[place].evaluating = phase->kind == PhaseKind::kEval;
      }
    } else if (const auto* clip = std::get_if<ClipEvent>(&event.body)) {
      on_clip(windows_[place], *clip, names);
    }
  }

  /// What was found instead of a sum, in a way that no miscount explains.
  struct Odd {
    Accumulation has;
    Sketch sketch = {};
    Found found = {};  ///< But for its sketch.
  };

  struct Tensor {
    NameId name = kNoName;
    Accumulation has;
    std::uint64_t used = 0;  ///< Digest of what the next step uses.
    std::optional<Sketch> used_sketch{};
    bool is_used = false;
    std::optional<Miscount> miscount{};  ///< Of a reduction since: no harm unless a step uses it.
    std::optional<Odd> odd{};            ///< The first since the last step.
    // In this window:
    bool trained = false;  ///< A micro-step has contributed,
    bool added = false;    ///< an evaluation has,
    bool cleared = false;  ///< or has cleared what micro-steps had contributed.
  };

  /// One rank's gradients of one wrapper.
  struct Window {
    std::vector<Tensor> tensors;  // In layout order: the layout seldom changes.
    bool strict = false;          // Clearing is recorded.
    bool evaluating = false;

    Tensor& tensor(NameId name, std::size_t hint) {
      if (hint < tensors.size() && tensors[hint].name == name) return tensors[hint];
      for (Tensor& tensor : tensors) {
        if (tensor.name == name) return tensor;
      }
      tensors.push_back({.name = name, .has = {}});
      return tensors.back();
    }
  };

  /// What became of a window's contributions.
  enum class Flaw : std::uint8_t {
    kNotCleared,
    kTwice,
    kLost,
    kEvaluationAdded,
    kEvaluationCleared,
    kUnscaledEarly
  };

  static Flaw flaw_of(Miscount how) {
    if (how == Miscount::kNotCleared) return Flaw::kNotCleared;
    return how == Miscount::kTwice ? Flaw::kTwice : Flaw::kLost;
  }

  struct Broken {
    std::int32_t step = 0;
    std::vector<Rank> ranks;
  };

  struct BrokenKey {
    WrapperKey wrapper;
    NameId tensor = kNoName;
    Flaw how = Flaw::kLost;
    friend auto operator<=>(const BrokenKey&, const BrokenKey&) = default;
  };

  template <typename Change>
  static void each_named(Window& window,
                         std::span<const NameId> layout,
                         const NameTable& /*names*/,
                         Change change) {
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const bool known = i < window.tensors.size() && window.tensors[i].name == layout[i];
      if (known) {
        change(window.tensors[i]);
        continue;
      }
      for (Tensor& tensor : window.tensors) {
        if (tensor.name == layout[i]) change(tensor);
      }
    }
  }

  void on_grad(const Event& event, const GradEvent& grad, Window& window, const NameTable& names) {
    const std::span<const NameId> layout = names.layout(grad.layout);
    for (std::size_t i = 0; i < grad.digests.size(); ++i) {
      take(event, grad, i, window, layout[i]);
    }
  }

  /// What the event says of its tensor i.
  void take(const Event& event, const GradEvent& grad, std::size_t i, Window& window, NameId name) {
    const bool undefined = bit(grad.undefined, i);
    if (grad.point == GradPoint::kUsed) {
      Tensor& tensor = window.tensor(name, i);
      tensor.is_used = !undefined;
      tensor.used = grad.digests[i];
      const bool sketched = grad.sketches.size() == grad.digests.size();
      tensor.used_sketch = sketched ? std::optional(grad.sketches[i]) : std::nullopt;
    } else if (grad.sketches.size() != grad.digests.size()) {
      window.tensor(name, i).has.known = false;
    } else if (grad.point == GradPoint::kInc && !undefined) {
      Tensor& tensor = window.tensor(name, i);
      tensor.has.contribute(grad.sketches[i], grad.digests[i]);
      (window.evaluating ? tensor.added : tensor.trained) = true;
    } else if (grad.point == GradPoint::kPre && !undefined) {
      before_reduction(event, grad, i, window.tensor(name, i), window.strict);
    } else if (grad.point == GradPoint::kPost) {
      Tensor& tensor = window.tensor(name, i);
      undefined ? tensor.has.clear() : tensor.has.become(grad.sketches[i], grad.digests[i]);
    }
  }

  void before_reduction(
      const Event& event, const GradEvent& grad, std::size_t i, Tensor& tensor, bool strict) {
    const Found found{&grad.sketches[i], grad.digests[i], grad.n_elems[i], grad.dtype};
    ++n_checked_;
    // Steps look at different parts of a tensor where coverage rotates.
    if (!whole_ && tensor.has.base_is_old) tensor.has.base.clear();
    const WrapEvent* const wrap = wrappers_.find(wrapper_of(event.at));
    const bool immediate = wrap == nullptr || wrap->synchronizes;
    const std::optional<Miscount> how =
        tensor.has.check(found, {.exact = exact_, .strict = strict, .immediate = immediate});
    if (how && !tensor.miscount) tensor.miscount = how;
    const bool several = tensor.has.base.n_terms > 0 || tensor.has.before_last.n_terms > 0;
    if (!how && whole_ && several && !tensor.odd && !tensor.has.explains(found)) {
      tensor.odd = Odd{tensor.has, grad.sketches[i], found};
    }
    tensor.has.become(grad.sketches[i], grad.digests[i]);
  }

  static void on_clip(Window& window, const ClipEvent& clip, const NameTable& names) {
    each_named(window, names.layout(clip.layout), names, [&](Tensor& tensor) {
      if (clip.kind == ClipKind::kNorm) return tensor.has.scale(clip.factor);
      tensor.has.known = false;
    });
  }

  void on_step(const Event& event, Window& window, const StepEvent& step, const NameTable& names) {
    each_named(window, names.layout(step.layout), names, [&](Tensor& tensor) {
      note_flaws(event, window, tensor);
      note_early(event, tensor, step);
      Accumulation& has = tensor.has;
      has.step();
      if (!tensor.is_used) return has.clear();
      if (has.base.digest == tensor.used) return;
      if (tensor.used_sketch) return has.be_left_as(*tensor.used_sketch, tensor.used);
      // A loss scaler took its factor off; anything else but clipping is not known.
      if (step.scale != 1.0) return has.base.scale(1.0 / step.scale);
      if (has.base.n_terms == 1) has.known = false;
    });
  }

  void note_flaws(const Event& event, const Window& window, Tensor& tensor) {
    // A model may be trained in evaluation mode for good, with frozen statistics.
    const bool touched = !window.evaluating && tensor.is_used;
    if (touched && tensor.cleared) note(event, tensor.name, Flaw::kEvaluationCleared);
    if (touched && tensor.added) note(event, tensor.name, Flaw::kEvaluationAdded);
    const bool explained = touched && (tensor.cleared || tensor.added);
    if (tensor.miscount && !explained) note(event, tensor.name, flaw_of(*tensor.miscount));
    tensor.miscount.reset();
    tensor.trained = tensor.added = tensor.cleared = false;
  }

  // Some optimizers take the factor off in their step. They use what was reduced as well, which then is a sum.
  void note_early(const Event& event, Tensor& tensor, const StepEvent& step) {
    const std::optional<Odd> odd = std::exchange(tensor.odd, std::nullopt);
    const bool unscaled_since = tensor.has.base.digest != tensor.used;
    if (!odd || !tensor.is_used || step.scale == 1.0 || step.found_inf || unscaled_since) return;
    Found found = odd->found;
    found.sketch = &odd->sketch;
    if (odd->has.is_unscaled_early(found, step.scale))
      note(event, tensor.name, Flaw::kUnscaledEarly);
  }

  void note(const Event& event, NameId tensor, Flaw how) {
    const BrokenKey key{wrapper_of(event.at), tensor, how};
    const auto [at, is_new] = broken_.try_emplace(key);
    Broken& broken = at->second;
    if (is_new || event.at.opt < broken.step) {
      broken = {event.at.opt, {event.rank}};
    } else if (event.at.opt == broken.step) {
      broken.ranks.push_back(event.rank);
    }
  }

  static Finding to_finding(const BrokenKey& key, Broken& broken, const NameTable& names) {
    std::sort(broken.ranks.begin(), broken.ranks.end());
    Finding finding;
    finding.attempt = key.wrapper.attempt;
    finding.event = "grad.pre";
    finding.tensor = names.text(key.tensor);
    finding.step = broken.step;
    finding.ranks = broken.ranks;
    switch (key.how) {
      case Flaw::kNotCleared:
        finding.message =
            "the gradient that enters the reduction still contains the previous step's";
        finding.field = "kept";
        finding.cause = Cause::kZeroGradForgotten;
        break;
      case Flaw::kTwice:
        finding.message = "one contribution enters the reduction twice";
        finding.field = "twice";
        finding.cause = Cause::kAccumulatedTwice;
        break;
      case Flaw::kLost:
        finding.message = "one contribution is missing from the reduction";
        finding.field = "lost";
        finding.cause = Cause::kContributionLost;
        break;
      case Flaw::kUnscaledEarly:
        finding.message =
            "gradients were unscaled before the last micro-step, so the last contribution is still "
            "scaled. Unscale once, after the last backward";
        finding.field = "unscaled";
        break;
      case Flaw::kEvaluationAdded:
        finding.message = "an evaluation added its gradient to the one that the step uses";
        finding.field = "added";
        finding.cause = Cause::kEvaluationTouchesGradients;
        break;
      case Flaw::kEvaluationCleared:
        finding.message =
            "an evaluation between two micro-steps cleared the first one's contribution";
        finding.field = "cleared";
        finding.cause = Cause::kEvaluationTouchesGradients;
        break;
    }
    return finding;
  }

  bool exact_;
  bool whole_;
  Wrappers wrappers_;
  std::map<WrapperKey, SingleContributions> together_;  // Of ranks in step.
  std::set<WrapperKey> apart_;
  RankWrapperMap<Window> windows_;  // Of the others.
  std::map<BrokenKey, Broken> broken_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_accumulated_once(const LawPolicy& policy) {
  return std::make_unique<AccumulatedOnce>(policy);
}

}  // namespace lockstep::laws
