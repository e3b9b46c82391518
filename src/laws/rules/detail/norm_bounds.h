// What a norm of gradients can be, given their sketches: the arithmetic of norm-true.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/laws/causes.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A gradient event, kept: what a law compares with a later one.
struct GradientsSeen {
  LayoutId layout = kNoLayout;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> digests;
  std::vector<Sketch> sketches;  ///< Empty where none were recorded.
  std::vector<std::int64_t> n_elems;
  std::vector<std::uint8_t> undefined;

  void keep(const GradEvent& grad);

  bool any() const { return !digests.empty(); }

  std::uint64_t hash() const;
  /// Where `name` stands, or nothing: also for a gradient that is undefined.
  std::optional<std::size_t> find(NameId name, std::size_t hint, const NameTable& names) const;
};

/// What is wrong with one call that clips.
struct Complaint {
  std::string field;
  std::string tensor;
  std::string message;
  Cause cause = Cause::kNone;
};

/// Between which numbers the norm of some gradients is.
struct NormBounds {
  double low = 0.0;
  double high = 0.0;
  bool known = false;

  bool admit(double norm) const { return norm >= low && norm <= high; }
};

/// From the sum of absolute values s and the number of elements n of each tensor: a norm of order 2
/// is at least s / sqrt(n) (Cauchy and Schwarz) and at most s, one of order 1 is s, the largest
/// value is at least s / n and at most s. Both sides are widened by the rounding of the norm itself,
/// (n + 4) u for all elements together. Unknown without sketches.
NormBounds bounds_of(const GradientsSeen& reduced, const ClipEvent& clip, const NameTable& names);

/// The factor is min(1, limit / norm), PyTorch's 1e-6 under the fraction or not, within 4 u.
std::optional<Complaint> wrong_factor(const ClipEvent& clip, DType dtype);

/// The norm is within its bounds, divided by the loss scale. `n_members`: ranks of the reduction.
std::optional<Complaint> wrong_norm(const ClipEvent& clip,
                                    const NormBounds& bounds,
                                    double scale,
                                    std::int32_t n_members);

/// A norm that the program gave is not the root of n_members (of order 1: n_members) times that of
/// these gradients alone, where the recorder has measured that: it would count each rank's copy of
/// the average. Within the rounding of both norms, of (n + 4) u for n elements together.
std::optional<Complaint> recounted_norm(const ClipEvent& clip,
                                        const GradientsSeen& reduced,
                                        std::int32_t n_members);

/// Whether the step used what the reduction left, or that times factor / scale: else the program may
/// have changed it before the call, whose norm is then that of other gradients.
bool is_only_clipped(const ClipEvent& clip,
                     const GradientsSeen& reduced,
                     const GradientsSeen& used,
                     double scale,
                     const NameTable& names);

/// Every tensor of the call was scaled alike: by factor / scale, times one number for all of them
/// that the program may have put on top. Within 3 u l1 + 8 n 2^-53 l1 of each projection, and half a
/// unit of the smallest number per element and operation. A factor that was not applied to any of
/// them is wrong, and one that passed by a tensor which the step used as it was reduced, while it was
/// applied to another. A tensor that is neither scaled nor as it was reduced was changed later.
std::optional<Complaint> wrong_scaling(const ClipEvent& clip,
                                       const GradientsSeen& reduced,
                                       const GradientsSeen& used,
                                       double scale,
                                       const NameTable& names);

/// The step used n_members times what the reduction left, to the place: reduced and used as in
/// wrong_scaling. `own_sums`: elements of each all-reduce with a sum that the program made in between
/// by itself; without one for every gradient, or one for all, nothing is wrong.
std::optional<Complaint> summed_again(const GradientsSeen& reduced,
                                      const GradientsSeen& used,
                                      const std::vector<std::int64_t>& own_sums,
                                      std::int32_t n_members,
                                      const NameTable& names);

/// The step used what the reduction left divided by `divisor`, to the place: as in wrong_scaling. Of
/// one that was left as it was, it is false for every divisor.
/// Requires: divisor > 0.
bool is_divided_by(double divisor,
                   const GradientsSeen& reduced,
                   const GradientsSeen& used,
                   const NameTable& names);

/// What a rank made of one tensor's averaged gradient before the step.
enum class GradientChange : std::uint8_t {
  kUnknown,  ///< The gradient was not recorded at both points.
  kNone,     ///< It is what the reduction left, divided by the loss scale.
  kScaled,   ///< Everything that the rank changed was scaled by one factor, as clipping does.
  kOther,    ///< Anything else, also where only one number changed: any is a multiple of another.
};

GradientChange change_of(const GradientsSeen& reduced,
                         const GradientsSeen& used,
                         double scale,
                         NameId tensor,
                         const NameTable& names);

}  // namespace lockstep::laws
