#include "lockstep/laws/rules/detail/norm_bounds.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/precision.h"

namespace lockstep::laws {

namespace {

/// A tensor, in what was reduced and in what the step used.
struct Followed {
  NameId name = kNoName;
  std::size_t reduced = 0;
  std::size_t used = 0;
};

std::vector<Followed> tensors_of(LayoutId layout,
                                 const GradientsSeen& reduced,
                                 const GradientsSeen& used,
                                 const NameTable& names) {
  std::vector<Followed> result;
  std::size_t hint = 0;
  for (const NameId name : names.layout(layout)) {
    const auto before = reduced.find(name, hint, names);
    const auto after = used.find(name, hint, names);
    ++hint;
    if (before && after) result.push_back({name, *before, *after});
  }
  return result;
}

double projected(const Sketch& sketch, const Sketch& onto) {
  double product = 0.0;
  for (std::size_t j = 0; j < sketch.sums.size(); ++j) product += sketch.sums[j] * onto.sums[j];
  return product;
}

/// By multiplications, and additions of equal numbers: `roundings` of them, of at most a unit each.
bool is_scaled_by(double factor,
                  const Followed& one,
                  const GradientsSeen& reduced,
                  const GradientsSeen& used,
                  double roundings = 3) {
  const Sketch& before = reduced.sketches[one.reduced];
  const Sketch& after = used.sketches[one.used];
  const Precision precision = precision_of(used.dtype);
  const auto n = static_cast<double>(reduced.n_elems[one.reduced]);
  const double l1 = std::abs(factor) * before.l1;
  const double bound =
      roundings * precision.unit * l1 + 8 * n * 0x1p-53 * l1 + 1.5 * n * precision.tiny;
  for (std::size_t j = 0; j < before.sums.size(); ++j) {
    if (!(std::abs(after.sums[j] - factor * before.sums[j]) <= bound)) return false;
  }
  return true;
}

}  // namespace

void GradientsSeen::keep(const GradEvent& grad) {
  layout = grad.layout;
  dtype = grad.dtype;
  digests.assign(grad.digests.begin(), grad.digests.end());
  sketches.assign(grad.sketches.begin(), grad.sketches.end());
  n_elems.assign(grad.n_elems.begin(), grad.n_elems.end());
  undefined.assign(grad.undefined.begin(), grad.undefined.end());
}

std::uint64_t GradientsSeen::hash() const {
  std::uint64_t hash = digests.size();
  for (const std::uint64_t digest : digests) hash = (hash ^ digest) * 0x9E3779B97F4A7C15U;
  return hash;
}

std::optional<std::size_t> GradientsSeen::find(NameId name,
                                               std::size_t hint,
                                               const NameTable& names) const {
  const std::span<const NameId> list = names.layout(layout);
  std::size_t at = hint;
  if (at >= list.size() || list[at] != name) {
    at = static_cast<std::size_t>(std::find(list.begin(), list.end(), name) - list.begin());
  }
  if (at >= digests.size() || bit(undefined, at)) return std::nullopt;
  return at;
}

NormBounds bounds_of(const GradientsSeen& reduced, const ClipEvent& clip, const NameTable& names) {
  NormBounds bounds;
  if (reduced.sketches.size() != reduced.digests.size()) return bounds;
  double low = 0.0;
  double high = 0.0;
  double n_elems = 0.0;
  std::size_t hint = 0;
  for (const NameId name : names.layout(clip.layout)) {
    const auto at = reduced.find(name, hint++, names);
    if (!at || !is_finite(reduced.sketches[*at])) return bounds;
    const double l1 = reduced.sketches[*at].l1;
    const auto n = static_cast<double>(std::max<std::int64_t>(reduced.n_elems[*at], 1));
    n_elems += n;
    if (clip.norm_type == 2.0) {
      low += l1 * l1 / n;
      high += l1 * l1;
    } else if (clip.norm_type == 1.0) {
      low += l1;
      high += l1;
    } else {
      low = std::max(low, l1 / n);
      high = std::max(high, l1);
    }
  }
  if (clip.norm_type == 2.0) {
    low = std::sqrt(low);
    high = std::sqrt(high);
  }
  const double slack = (n_elems + 4) * precision_of(reduced.dtype).unit;
  bounds.low = low * (1 - slack);
  // The norm of another wrapper's gradients may be part of it.
  bounds.high = clip.whole ? high * (1 + slack) : HUGE_VAL;
  bounds.known = n_elems > 0;
  return bounds;
}

std::optional<Complaint> wrong_factor(const ClipEvent& clip, DType dtype) {
  if (!std::isfinite(clip.norm)) return std::nullopt;
  const double slack = 4 * precision_of(dtype).unit;
  const double most = std::min(1.0, clip.norm > 0.0 ? clip.limit / clip.norm : 1.0);
  const double least = std::min(1.0, clip.limit / (clip.norm + 1e-6));
  if (clip.factor >= least * (1 - slack) && clip.factor <= most * (1 + slack)) return std::nullopt;
  return Complaint{"factor",
                   "",
                   "gradients of norm " + exact(clip.norm) + " were scaled by " +
                       exact(clip.factor) + ", but the limit " + exact(clip.limit) + " requires " +
                       exact(least),
                   clip.factor == 1.0 ? Cause::kClipNotApplied : Cause::kNone};
}

namespace {

constexpr const char* kCountedPerRank = ": the averaged gradients were counted once per rank";

/// By what a norm grows when all ranks add the same gradients to it.
double times_counted(const ClipEvent& clip, std::int32_t n_members) {
  if (clip.norm_type == 2.0) return std::sqrt(static_cast<double>(n_members));
  return clip.norm_type == 1.0 ? static_cast<double>(n_members) : 1.0;
}

}  // namespace

std::optional<Complaint> recounted_norm(const ClipEvent& clip,
                                        const GradientsSeen& reduced,
                                        std::int32_t n_members) {
  const double times = times_counted(clip, n_members);
  if (!(clip.own > 0.0) || !std::isfinite(clip.norm) || times == 1.0) return std::nullopt;
  double n_elems = 0.0;
  for (const std::int64_t n : reduced.n_elems) n_elems += static_cast<double>(n);
  const double slack = 2 * (n_elems + 4) * precision_of(reduced.dtype).unit;
  // Where rounding could make up for it, nothing is certain.
  const bool told_apart = slack < (times - 1) / 2;
  const double recounted = clip.own * times;
  if (!told_apart || std::abs(clip.norm - recounted) > slack * recounted) return std::nullopt;
  return Complaint{"norm",
                   "",
                   "clipping used a norm of " + exact(clip.norm) + ", but the gradients' norm is " +
                       exact(clip.own) + kCountedPerRank,
                   Cause::kClipNormRecounted};
}

std::optional<Complaint> wrong_norm(const ClipEvent& clip,
                                    const NormBounds& bounds,
                                    double scale,
                                    std::int32_t n_members) {
  if (!bounds.known || !std::isfinite(clip.norm)) return std::nullopt;
  const NormBounds unscaled{bounds.low / scale, bounds.high / scale, true};
  if (unscaled.admit(clip.norm)) return std::nullopt;
  std::string message = "clipping used a norm of " + exact(clip.norm) +
                        ", but the gradients' norm is " +
                        (unscaled.low == unscaled.high
                             ? exact(unscaled.low)
                             : "between " + exact(unscaled.low) + " and " + exact(unscaled.high));
  if (bounds.admit(clip.norm)) {
    return Complaint{"norm",
                     "",
                     message + ": the gradients still carried the loss scale",
                     Cause::kClipBeforeUnscale};
  }
  if (unscaled.admit(clip.norm / times_counted(clip, n_members))) {
    return Complaint{"norm", "", message + kCountedPerRank, Cause::kClipNormRecounted};
  }
  return Complaint{"norm", "", std::move(message), Cause::kNone};
}

namespace {

/// How gradients changed between their reduction and the step, all together.
struct Scaling {
  double common = 0.0;  ///< The factor that fits best.
  bool untouched = true;
};

/// Nothing: they cannot be compared.
std::optional<Scaling> scaling_of(const std::vector<Followed>& tensors,
                                  const GradientsSeen& reduced,
                                  const GradientsSeen& used) {
  Scaling scaling;
  double products = 0.0;
  double squares = 0.0;
  for (const Followed& one : tensors) {
    const Sketch& before = reduced.sketches[one.reduced];
    const Sketch& after = used.sketches[one.used];
    if (!is_finite(before) || !is_finite(after)) return std::nullopt;
    if (reduced.n_elems[one.reduced] != used.n_elems[one.used]) return std::nullopt;
    products += projected(before, after);
    squares += projected(before, before);
    if (reduced.digests[one.reduced] != used.digests[one.used]) scaling.untouched = false;
  }
  if (tensors.empty() || squares == 0.0) return std::nullopt;
  scaling.common = products / squares;
  return scaling;
}

/// Whether the step used what the reduction left, but for the loss scale. Where there was none, bits tell.
bool is_left_alone(const Followed& one,
                   const GradientsSeen& reduced,
                   const GradientsSeen& used,
                   double scale) {
  if (scale == 1.0) return reduced.digests[one.reduced] == used.digests[one.used];
  return is_scaled_by(1.0 / scale, one, reduced, used);
}

/// The first tensor that was left alone where another one was scaled by `factor`, or null. What is neither was changed by
/// the program after clipping, which may centre a gradient or add weight decay to it: how it was clipped is not to be seen.
const Followed* missed_by_clipping(const std::vector<Followed>& tensors,
                                   const GradientsSeen& reduced,
                                   const GradientsSeen& used,
                                   double factor,
                                   double scale) {
  const Followed* missed = nullptr;
  bool any_scaled = false;
  for (const Followed& one : tensors) {
    const bool alone = is_left_alone(one, reduced, used, scale);
    // A gradient of zeros, and a factor that is lost in rounding, fit both.
    const bool scaled = is_scaled_by(factor, one, reduced, used);
    any_scaled = any_scaled || (scaled && !alone);
    if (missed == nullptr && alone && !scaled) missed = &one;
  }
  return any_scaled ? missed : nullptr;
}

}  // namespace

bool is_only_clipped(const ClipEvent& clip,
                     const GradientsSeen& reduced,
                     const GradientsSeen& used,
                     double scale,
                     const NameTable& names) {
  if (reduced.sketches.size() != reduced.digests.size() ||
      used.sketches.size() != used.digests.size()) {
    return false;
  }
  const std::vector<Followed> tensors = tensors_of(clip.layout, reduced, used, names);
  const auto unchanged = [&](const Followed& one) {
    return reduced.digests[one.reduced] == used.digests[one.used];
  };
  const auto scaled = [&](const Followed& one) {
    return is_scaled_by(clip.factor / scale, one, reduced, used);
  };
  return std::ranges::all_of(tensors, unchanged) || std::ranges::all_of(tensors, scaled);
}

std::optional<Complaint> wrong_scaling(const ClipEvent& clip,
                                       const GradientsSeen& reduced,
                                       const GradientsSeen& used,
                                       double scale,
                                       const NameTable& names) {
  if (reduced.sketches.size() != reduced.digests.size() ||
      used.sketches.size() != used.digests.size()) {
    return std::nullopt;
  }
  const std::vector<Followed> tensors = tensors_of(clip.layout, reduced, used, names);
  const std::optional<Scaling> scaling = scaling_of(tensors, reduced, used);
  if (!scaling) return std::nullopt;
  const double factor = clip.factor / scale;
  const auto explains = [&](double by) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const Followed& one) {
      return is_scaled_by(by, one, reduced, used);
    });
  };
  // A factor next to 1 may be lost in rounding, so that gradients have the bits that they had.
  if (explains(factor)) return std::nullopt;
  if (scaling->untouched && scale == 1.0 && clip.factor != 1.0) {
    return Complaint{"scaled",
                     "",
                     "the step used the reduced gradients unclipped, although clipping should have "
                     "scaled them by " +
                         exact(clip.factor),
                     Cause::kClipNotApplied};
  }
  if (explains(scaling->common)) return std::nullopt;
  const Followed* const missed = missed_by_clipping(tensors, reduced, used, factor, scale);
  if (missed == nullptr) return std::nullopt;
  return Complaint{"scaled",
                   std::string(names.text(missed->name)),
                   "between the reduction and the step, clipping scaled other gradients by " +
                       exact(factor) + ", but not this one",
                   Cause::kNone};
}

namespace {

/// Whether calls over `counts` elements can have been calls over these gradients.
bool are_all_of(const std::vector<Followed>& tensors,
                const GradientsSeen& reduced,
                std::vector<std::int64_t> counts) {
  std::int64_t total = 0;
  for (const Followed& one : tensors) total += reduced.n_elems[one.reduced];
  if (std::ranges::find(counts, total) != counts.end()) return true;
  for (const Followed& one : tensors) {
    const auto own = std::ranges::find(counts, reduced.n_elems[one.reduced]);
    if (own == counts.end()) return false;
    counts.erase(own);
  }
  return true;
}

}  // namespace

std::optional<Complaint> summed_again(const GradientsSeen& reduced,
                                      const GradientsSeen& used,
                                      const std::vector<std::int64_t>& own_sums,
                                      std::int32_t n_members,
                                      const NameTable& names) {
  const bool sketched = reduced.sketches.size() == reduced.digests.size() &&
                        used.sketches.size() == used.digests.size();
  if (!sketched || own_sums.empty() || n_members < 2) return std::nullopt;
  const std::vector<Followed> tensors = tensors_of(used.layout, reduced, used, names);
  const std::optional<Scaling> scaling = scaling_of(tensors, reduced, used);
  if (!scaling || scaling->untouched || !are_all_of(tensors, reduced, own_sums))
    return std::nullopt;
  const bool all = std::ranges::all_of(tensors, [&](const Followed& one) {
    const double roundings = std::max(3.0, static_cast<double>(n_members));
    return is_scaled_by(n_members, one, reduced, used, roundings);
  });
  if (!all) return std::nullopt;
  return Complaint{
      "scaled",
      "",
      "the step used " + std::to_string(n_members) +
          " times the averaged gradients: the program summed them over the ranks again",
      Cause::kReducedAgain};
}

bool is_divided_by(double divisor,
                   const GradientsSeen& reduced,
                   const GradientsSeen& used,
                   const NameTable& names) {
  const bool sketched = reduced.sketches.size() == reduced.digests.size() &&
                        used.sketches.size() == used.digests.size();
  if (!sketched) return false;
  const std::vector<Followed> tensors = tensors_of(used.layout, reduced, used, names);
  const std::optional<Scaling> scaling = scaling_of(tensors, reduced, used);
  if (!scaling || scaling->untouched) return false;
  return std::ranges::all_of(tensors, [&](const Followed& one) {
    return is_scaled_by(1.0 / divisor, one, reduced, used);
  });
}

GradientChange change_of(const GradientsSeen& reduced,
                         const GradientsSeen& used,
                         double scale,
                         NameId tensor,
                         const NameTable& names) {
  std::vector<Followed> changed = tensors_of(used.layout, reduced, used, names);
  const auto is_it = [&](const Followed& one) { return one.name == tensor; };
  if (std::ranges::none_of(changed, is_it)) return GradientChange::kUnknown;
  const bool sketched = reduced.sketches.size() == reduced.digests.size() &&
                        used.sketches.size() == used.digests.size();
  std::erase_if(changed, [&](const Followed& one) {
    return is_left_alone(one, reduced, used, sketched ? scale : 1.0);
  });
  if (std::ranges::none_of(changed, is_it)) return GradientChange::kNone;
  if (!sketched) return GradientChange::kOther;
  std::int64_t n_elems = 0;
  for (const Followed& one : changed) n_elems += reduced.n_elems[one.reduced];
  const std::optional<Scaling> scaling = scaling_of(changed, reduced, used);
  if (!scaling || n_elems < 2) return GradientChange::kOther;
  const bool all = std::ranges::all_of(changed, [&](const Followed& one) {
    return is_scaled_by(scaling->common, one, reduced, used);
  });
  return all ? GradientChange::kScaled : GradientChange::kOther;
}

}  // namespace lockstep::laws
