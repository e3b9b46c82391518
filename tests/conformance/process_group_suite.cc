#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {

TEST_P(ProcessGroupConformance, EveryRankSeesThePromiseKept) {
  const auto& [backend, one] = GetParam();
  if (backend.n_ranks < one.min_ranks) return;  // No peer to talk to.
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

}  // namespace lockstep::conformance
