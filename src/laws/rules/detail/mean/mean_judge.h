// Whether what a reduction published is the mean that was declared, and what it is if not.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/wrong_mean.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/rules/detail/declared_mean.h"
#include "lockstep/laws/rules/detail/mean/gradient_travel.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"

namespace lockstep::laws {

/// Judges reductions one by one, and reports each tensor of a wrapper once.
class MeanJudge {
 public:
  explicit MeanJudge(const LawPolicy& policy)
      : exact_(policy.exact), declared_(policy.declared_mean) {}

  /// A complete reduction, `open`, whose ranks met at `alignment`.
  struct Case {
    const AlignmentKey& alignment;
    const OpenReduction& open;
    const Wrappers& wrappers;
    const NameTable& names;
  };

  /// What it declares or is, and how it travelled, decide.
  ///
  /// Requires: locals and published ones are in the order of ranks.
  void judge(const Case& one, const GradientTravel& travel);

  std::int64_t n_checked() const { return n_checked_; }

  /// What is missing where nothing could be judged.
  const std::string& missing() const { return missing_; }

  /// Once, at the end.
  std::vector<Finding> take_findings();

  /// "A-summed-gradients": a hook that does something else than averaging leaves plain sums.
  std::vector<Advice> advice() const;

 private:
  struct Expected {
    const Declared& declared;
    const TravelManner& manner;
    std::optional<DType> halves = {};  ///< GradientTravel's.
  };

  struct Broken {
    const Expected& expected;
    const Judged& judged;
    bool was_right = false;  ///< Other ranks were given the declared mean.
  };

  void judge_against(const Case& one, const Expected& expected);
  /// Micro-steps with different denominators: each of them has a weight of its own. False: they are
  /// not known one by one.
  bool judge_micro_steps(const Case& one);
  Judged judge_published(const Case& one, const Published& published, const Expected& expected);
  template <typename Build, typename Accepts>
  Judged judge_tensors(const Case& one, const Published& published, Build build, Accepts accepts);
  /// Nothing that a hook does on purpose is held against it.
  void spare(const Expected& expected, Judged& judged);
  void report(const Case& one, const Published& published, const Broken& broken);
  void keep(const AlignmentKey& alignment, NameId tensor, bool is_even, Finding finding);
  std::string_view meant_by(const OpenReduction& open, const NameTable& names) const;

  bool exact_;
  std::string declared_;
  std::set<std::pair<WrapperKey, NameId>> reported_;
  UnevenWindows uneven_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
  std::int64_t n_sums_of_hooks_ = 0;
  std::string missing_;
};

}  // namespace lockstep::laws
