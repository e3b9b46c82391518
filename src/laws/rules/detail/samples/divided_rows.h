// Which rows of a data set the ranks divide among themselves, where they take only some of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/samples/split_place.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Ranks that divide a subset have to divide the same one, pass by pass.
///
///   rank 0: 0 1 2 4     rank 1: 0 2 3 5     3 is held out by rank 0 and trained on by rank 1
///   rank 0: 0 2 4 6     rank 1: 1 3 5 7     nothing in common: shares, of which each is divided once more
class DividedRows {
 public:
  /// A rank begins a pass over these rows.
  void on_pass(const Event& event, const DataEvent& data);
  void on_samples(const Event& event, const SampleEvent& samples);

  /// At most one per split.
  std::vector<Finding> findings(const NameTable& names) const;

 private:
  /// Who has read which sample.
  struct Readers {
    std::map<std::int64_t, std::int32_t> of;
    bool shared = false;  ///< Two ranks have read one.
  };

  bool are_shares(const SplitPlace& place, const Ballot& ballot) const;
  Finding finding(const SplitPlace& place, const Ballot& ballot, const NameTable& names) const;

  std::map<std::pair<SplitPlace, std::int32_t>, std::int32_t> n_passes_;  // By place and rank.
  std::map<std::pair<SplitPlace, std::int32_t>, Ballot> rows_;            // By place and pass.
  std::map<SplitPlace, Readers> readers_;
};

}  // namespace lockstep::laws
