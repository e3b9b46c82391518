// What a broadcast of rank 0's buffers replaced on other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/law.h"

namespace lockstep::laws {

/// Buffers of which other ranks had a value of their own when a forward broadcast rank 0's copy. Such a
/// value is lost. Batch norm's counters of batches say more: ranks that ran the same forwards have the
/// same, so where they differ, some ranks ran the layers in training mode more often.
///
///   a forward on rank 1   found: queue                          -> advice: its values are lost
///                         found: every num_batches_tracked      -> a finding, once training has begun
///                         found: some of them                   -> advice: a branch, or a frozen part
class ReplacedBuffers {
 public:
  /// Reads `found` buffers, and forwards that `event` is the only rank's to report.
  void on_event(const Event& event, const Wrappers& wrappers, const NameTable& names);

  /// One for each wrapper whose batch norm ran in training mode more often on some ranks.
  std::vector<Finding> findings(const Wrappers& wrappers, const NameTable& names) const;

  /// Of buffers whose policy the program does not declare.
  std::vector<Advice> advice(const Wrappers& wrappers, const NameTable& names) const;

  /// The program says what this buffer is meant to be.
  void declare(WrapperKey wrapper, NameId buffer) { declared_.insert({wrapper, buffer}); }

 private:
  struct Replaced {
    NameId buffer = kNoName;  // The first of them.
    std::set<std::int32_t> ranks;
    std::int32_t step = 0;  // The first.
    std::set<std::int32_t> forwards;

    void add(NameId name, const Event& event);
  };

  bool ran_alike(WrapperKey wrapper, const Wrappers& wrappers) const;
  std::string places(const Replaced& replaced) const;
  std::vector<Rank> odd_ranks(WrapperKey wrapper,
                              const Replaced& replaced,
                              const Wrappers& wrappers) const;

  std::map<RankWrapper, std::int64_t>
      n_forwards_;                           // With gradients, of ranks that are not in step.
  std::map<WrapperKey, Replaced> counters_;  // All of a wrapper's, after its first step.
  std::map<WrapperKey, Replaced> some_counters_;
  std::map<std::pair<WrapperKey, NameId>, Replaced> values_;
  std::set<std::pair<WrapperKey, NameId>> declared_;
};

}  // namespace lockstep::laws
