// The promises of a ProcessGroup, kept by processes connected with Gloo.
#include "tests/conformance/process_group_suite.h"
#include "tests/support/gloo_ranks.h"

namespace lockstep::conformance {
namespace {

template <std::int32_t kRanks>
struct GlooProcesses {
  static constexpr std::int32_t kWorldSize = kRanks;

  static void run(const std::function<void(ProcessGroup&)>& program) {
    testing::run_gloo_ranks(kRanks, program);
  }
};

using Worlds =
    ::testing::Types<GlooProcesses<2>, GlooProcesses<3>, GlooProcesses<4>, GlooProcesses<8>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Gloo, ProcessGroupConformance, Worlds);

}  // namespace
}  // namespace lockstep::conformance
