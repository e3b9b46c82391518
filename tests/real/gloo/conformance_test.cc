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

// With every result compared: no operation, type or number of ranks gives a false alarm.
Backend checked_gloo_of(std::int32_t n_ranks) {
  return {"Ranks" + std::to_string(n_ranks), n_ranks, [n_ranks](const Program& program) {
            testing::run_gloo_world({.size = n_ranks,
                                     .rendezvous = {},
                                     .timeout = std::chrono::seconds(20),
                                     .check_arrivals = true},
                                    program);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    CheckedGloo,
    ProcessGroupConformance,
    ::testing::ValuesIn(promises_of({checked_gloo_of(2), checked_gloo_of(3), checked_gloo_of(4)})),
    conformance_name);

INSTANTIATE_TEST_SUITE_P(
    Gloo,
    ProcessGroupConformance,
    ::testing::ValuesIn(promises_of({gloo_of(2), gloo_of(3), gloo_of(4), gloo_of(8)})),
    conformance_name);

}  // namespace
}  // namespace lockstep::conformance
