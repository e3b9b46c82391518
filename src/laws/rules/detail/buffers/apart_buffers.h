// Evaluations of a loop without a wrapper, whose ranks hold buffers of their own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Nothing brings the buffers of such a loop together, and running statistics come from each rank's own batches. That is right in
/// training. Where all ranks evaluate with them, and the program adds up what they find, the sum is of several models:
///
///   rank 0   eval   sum over the ranks   buffers b
///   rank 1   eval   sum over the ranks   buffers c
///
/// Ranks may each have statistics on purpose, for data of their own; hence advice.
class ApartBuffers {
 public:
  /// Whether it may say anything: a loop has buffers.
  bool any() const { return any_; }

  void on_wrap(const WrapEvent& wrap, const NameTable& names);
  /// Of one rank.
  void on_event(const Event& event, const Wrappers& wrappers, const NameTable& names);

  /// A program has said what this is meant to be.
  void declare(WrapperKey wrapper, NameId buffer) { declared_.insert({wrapper, buffer}); }

  /// "A-buffers-apart", of the first such evaluation of each loop.
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  struct Evaluation {
    WrapperKey wrapper;
    bool adds_up = false;
  };

  /// What the ranks have of one buffer after one evaluation.
  struct Held {
    std::optional<std::uint64_t> digest;
    bool apart = false;
    std::int32_t n_ranks = 0;
  };

  using Buffers = std::map<NameId, Held>;

  void keep(const Event& event, const StateEvent& state, const NameTable& names);

  bool any_ = false;
  std::map<std::int32_t, Evaluation> open_;                             // By rank.
  std::map<std::pair<WrapperKey, std::int32_t>, Buffers> evaluations_;  // By step.
  std::set<std::pair<WrapperKey, NameId>> declared_;
};

}  // namespace lockstep::laws
