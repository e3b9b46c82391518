// What a search runs its scenario on.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/explore/search/search.h"

namespace lockstep::explore::detail {

/// The scenario as it is, under other seeds of its job and with small changes.
struct SearchInputs {
  std::vector<std::vector<Setting>> settings;
  std::vector<Scenario> scenarios;
  std::uint64_t n_seeds = 1;
  std::uint64_t n_changes = 0;
};

/// Errors: those of load_scenario, of the scenario as it is.
Result<SearchInputs> load_inputs(const std::string& path, const SearchOptions& options);

std::vector<Setting> joined(const std::vector<Setting>& a, const std::vector<Setting>& b);

}  // namespace lockstep::explore::detail
