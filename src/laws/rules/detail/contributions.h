// What each backward of a rank added to gradients that no reduction has taken yet.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/accumulation.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Tensors of one gradient event, kept.
struct KeptGradients {
  std::vector<std::uint64_t> digests;
  std::vector<Sketch> sketches;  ///< Empty where none were recorded.
  std::vector<std::uint8_t> undefined;

  void keep(const GradEvent& grad) {
    digests.assign(grad.digests.begin(), grad.digests.end());
    sketches.assign(grad.sketches.begin(), grad.sketches.end());
    undefined.assign(grad.undefined.begin(), grad.undefined.end());
  }
};

/// A step of all ranks of a wrapper that used gradients which the wrapper had not reduced.
struct OwnReduction {
  struct Share {
    std::int32_t rank = 0;
    std::vector<KeptGradients> added;  ///< By backward.
    bool from_nothing = false;         ///< Gradients were cleared before the first of them.
    bool of_mean = false;              ///< It is one, and of a loss that is the mean of its terms.
    double n_terms = 0.0;              ///< Of the last loss; 0: not known.
    double divisor = 1.0;  ///< What the last loss was divided by beside its number of terms.
    KeptGradients used;
    KeptGradients used_before;  ///< By the step before; empty: not known.
  };

  WrapperKey wrapper;
  std::int32_t step = 0;
  LayoutId layout = kNoLayout;       ///< Of what was added.
  LayoutId used_layout = kNoLayout;  ///< Of what was used.
  std::vector<std::int64_t> n_elems;
  DType dtype = DType::kF32;
  std::vector<Share> shares;  ///< One per rank.

  /// What a rank added to tensor i of `layout`; no terms: nothing.
  static SketchSum sum_of(const Share& share, std::size_t i);
  /// Of tensor i in what was used, or nothing: also where some rank had none.
  std::optional<std::size_t> used_place(std::size_t i, const NameTable& names) const;
  /// Whether the step used the same bits of tensor i on all ranks.
  bool is_used_alike(std::size_t i, const NameTable& names) const;
  /// Whether ranks added different ones.
  bool is_added_apart(std::size_t i) const;
  /// The tensors of which it used the same bits.
  std::vector<NameId> used_alike(const NameTable& names) const;
  /// The tensors that the program has reduced by itself: different on the ranks before, and the same
  /// bits on all of them in the step, which only communication brings about. With one such tensor,
  /// those that were the same before (no gradient at all, often) count too.
  std::vector<NameId> reduced(const NameTable& names) const;
};

/// Follows each rank's gradients of each wrapper while its backward passes do not reduce (no_sync).
class Contributions {
 public:
  /// What a rank has added since its gradients were cleared or reduced: nothing where every backward
  /// reduces.
  struct Window {
    bool quiet = false;  ///< The backward of the last forward does not reduce.
    /// What follows comes from a backward inside a forward, which reduces nothing.
    bool inside = false;
    bool cleared = true;   ///< There was no gradient before the first contribution.
    bool started = false;  ///< Contributions of this window started from cleared gradients.
    LayoutId layout = kNoLayout;
    std::vector<std::int64_t> n_elems;
    DType dtype = DType::kF32;
    std::vector<KeptGradients> added;
    KeptGradients used;  ///< By the last step, of used_layout.
    LayoutId used_layout = kNoLayout;
    bool from_mean = false;  ///< The next backward starts from the mean of a loss's terms ...
    bool of_mean = false;    ///< ... as the last one did.
    double n_terms = 0.0;    ///< Of the last loss that a backward may follow; 0: not known.
    double divisor = 1.0;  ///< What it was divided by beside its number of terms, if that is known.
  };

  void on_event(const Event& event, const NameTable& names, std::int32_t n_members) {
    observe(event, one_rank(event), names, n_members);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names, std::int32_t n_members);

  Window* find(const RankWrapper& place) { return windows_.find(place); }

  /// Whether any backward was not to reduce.
  bool any() const { return any_; }

  /// Whether a backward that follows starts from this loss itself, which is the mean of its terms. A
  /// loss function that was only called says how many terms there were.
  static bool starts_from_mean(const LossEvent& loss);

  /// Steps that all ranks have taken with gradients that were not reduced, since the last call.
  std::vector<OwnReduction> take() { return std::exchange(complete_, {}); }

 private:
  static constexpr std::size_t kMaxOpen = 256;  // Ranks farther apart than that are not compared.

  void observe(const Event& event, RankRange who, const NameTable& names, std::int32_t n_members);
  void on_grad(const Event& event, const GradEvent& grad, Window& window, std::int32_t n_members);
  static void on_loss(const LossEvent& loss, Window& window);
  static void add(const GradEvent& grad, Window& window);
  void on_used(const Event& event, const GradEvent& grad, Window& window, std::int32_t n_members);
  static void on_clear(Window& window, const ZeroGradEvent& clear, const NameTable& names);

  bool any_ = false;
  RankWrapperMap<Window> windows_;
  std::map<std::pair<WrapperKey, std::int32_t>, OwnReduction> open_;  // By step.
  std::vector<OwnReduction> complete_;
};

}  // namespace lockstep::laws
