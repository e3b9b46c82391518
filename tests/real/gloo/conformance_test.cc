// The promises of a ProcessGroup, kept by processes connected with Gloo.
#include "tests/conformance/process_group_suite.h"
#include "tests/support/gloo_ranks.h"

namespace lockstep::conformance {
namespace {

Backend gloo_of(std::int32_t n_ranks) {
  return {"Ranks" + std::to_string(n_ranks), n_ranks, [n_ranks](const Program& program) {
            testing::run_gloo_ranks(n_ranks, program);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Gloo,
    ProcessGroupConformance,
    ::testing::Combine(::testing::Values(gloo_of(2), gloo_of(3), gloo_of(4), gloo_of(8)),
                       ::testing::ValuesIn(process_group_cases())),
    conformance_name);

}  // namespace
}  // namespace lockstep::conformance
