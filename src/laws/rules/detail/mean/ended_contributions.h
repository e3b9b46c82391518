// Ranks that stop contributing to a tensor while others go on.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"

namespace lockstep::laws {

/// A wrapper that looks for unused parameters takes one that a rank has frozen for one that this rank did not use, and
/// counts a zero for it: no rank fails, and replicas stay equal.
///
///   reductions of a layer   rank 0: x x x x x x x     rank 1: x x x - - - -     ended at the fourth
///
/// Ranks may train different tasks, some of them for a while only; hence advice. A tensor that some rank
/// left out earlier belongs to such a program, and one that a rank takes up again does not matter.
class EndedContributions {
 public:
  /// Of every complete reduction.
  void on_reduction(const AlignmentKey& alignment, const OpenReduction& open);

  /// "A-contribution-ended", at most once per wrapper.
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  struct Place {
    WrapperKey wrapper;
    std::uint32_t layout = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  /// Where one rank has left out one tensor.
  struct Absence {
    std::int32_t step = 0;
    std::int64_t n_missed = 0;
    friend bool operator==(const Absence&, const Absence&) = default;
  };

  struct Tensor {
    std::map<std::int32_t, Absence> of_rank;
    /// Some rank has left it out and taken it up again, or all leave it out.
    bool returned = false;
  };

  struct Reductions {
    std::int64_t n_whole = 0;  ///< With all tensors of all ranks, before the first other one.
    std::map<std::size_t, Tensor> tensors;  // Those that were left out.
  };

  static bool is_whole(const OpenReduction& open);
  static void note(Tensor& tensor, std::size_t i, const OpenReduction& open);
  /// The ranks that have ended their contributions to it.
  std::map<std::int32_t, Absence> ended(WrapperKey wrapper, const Tensor& tensor) const;
  static std::string text(const std::map<std::int32_t, Absence>& ended, std::string_view tensor);
  bool is_ended(WrapperKey wrapper, std::int32_t rank, const Absence& absence) const;

  std::map<Place, Reductions> reductions_;
  std::map<std::pair<WrapperKey, std::int32_t>, std::int32_t>
      last_;  // Step of a contribution, by rank.
};

}  // namespace lockstep::laws
