// What the runs of a search come to.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/detail/search_inputs.h"

namespace lockstep::explore::detail {

/// Collects what runs showed, in the order of their numbers. It knows them as records, so that runs
/// of other processes count like those of this one.
class Tally {
 public:
  Tally(const SearchInputs& inputs, bool may_differ)
      : inputs_(&inputs), may_differ_(may_differ), ends_(inputs.scenarios.size()) {}

  /// A kept failure, tried first. False: it failed, and the search is over.
  bool add_kept(const MadeRun& run);
  /// Any other run. False: it failed, and the search is over.
  bool add(const MadeRun& run);

  SearchResult& result() { return result_; }

 private:
  void count(const MadeRun& run);

  const SearchInputs* inputs_;
  bool may_differ_;
  std::set<std::uint64_t> all_ends_;
  std::vector<std::map<std::uint64_t, std::string>> ends_;  ///< Digest -> schedule, by input.
  SearchResult result_;
};

}  // namespace lockstep::explore::detail
