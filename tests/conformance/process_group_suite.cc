#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {

TEST_P(ProcessGroupConformance, EveryRankSeesThePromiseKept) {
  const auto& [backend, one] = GetParam();
  backend.run(one.program);
}

std::vector<Case> process_group_cases() {
  std::vector<Case> cases;
  for (const auto& list :
       {collective_cases(), reduction_cases(), message_cases(), group_cases(), work_cases()}) {
    cases.insert(cases.end(), list.begin(), list.end());
  }
  return cases;
}

std::vector<Promise> promises_of(const std::vector<Backend>& backends) {
  std::vector<Promise> promises;
  for (const Backend& backend : backends) {
    for (const Case& one : process_group_cases()) {
      if (backend.n_ranks >= one.min_ranks) promises.emplace_back(backend, one);
    }
  }
  return promises;
}

}  // namespace lockstep::conformance
