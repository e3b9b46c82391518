// Tensors that steps used without a reduction, over all ranks of their wrapper.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/parameters/parameter_averages.h"
#include "lockstep/laws/rules/detail/reduced/reduction_window.h"

namespace lockstep::laws {

/// A tensor of a wrapper between two averages of its parameters.
struct UnreducedKey {
  WrapperKey wrapper;
  NameId tensor = kNoName;
  std::int32_t interval = 0;
  friend auto operator<=>(const UnreducedKey&, const UnreducedKey&) = default;
};

/// A tensor whose gradient the wrapper had not reduced, in one rank's step.
struct Suspect {
  UnreducedKey key;
  Rank rank{};
  std::int32_t step = 0;
  std::int32_t sync = -1;
  UnreducedEvidence evidence;
};

/// The ranks that used one such tensor in its earliest step.
struct UnreducedTensor {
  std::int32_t step = 0;
  std::int32_t sync = -1;
  std::vector<Rank> ranks;
  UnreducedEvidence evidence;  ///< Of the lowest of them.

  /// Ranks arrive in any order: keeps the earliest step and all ranks that broke the law there.
  void add(const Suspect& suspect);
  /// `by_hand`: what the program has reduced by itself is known from what steps used, and from nothing else.
  Finding finding(const UnreducedKey& key, bool by_hand, const NameTable& names) const;
};

/// Suspects wait until all ranks have taken their step: only then is it known what the program reduced
/// by itself.
class UnreducedTensors {
 public:
  /// Requires: the averages outlive it.
  explicit UnreducedTensors(const ParameterAverages& averages) : averages_(averages) {}

  void suspect(const Suspect& suspect);

  /// What a step of this number used was reduced by the program.
  void reduced_by_program(WrapperKey wrapper, std::int32_t step, std::vector<NameId> tensors);

  /// Ranks have taken the step; the last of the wrapper's `n_members` settles what all of them used.
  void stepped(WrapperKey wrapper, std::int32_t step, RankRange who, std::int32_t n_members);

  /// Ranks trained alone on purpose: their parameters were averaged afterwards. A rank that trains alone
  /// by mistake has others that do not.
  void forgive(const ParameterAverages::Ended& ended, std::int32_t n_members);

  /// Settles what is left. Returns: what steps used without a reduction.
  std::map<UnreducedKey, UnreducedTensor>& settled();

 private:
  struct Step {
    std::vector<Suspect> suspects;
    std::int32_t n_stepped = 0;
    std::vector<NameId> reduced;  // By the program itself.
  };

  using Steps = std::map<std::pair<WrapperKey, std::int32_t>, Step>;

  static constexpr std::size_t kMaxSteps = 4096;

  void settle(Steps::iterator at);

  const ParameterAverages& averages_;
  Steps steps_;
  std::map<UnreducedKey, UnreducedTensor> broken_;
};

}  // namespace lockstep::laws
