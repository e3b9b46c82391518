// The promises of a ProcessGroup, kept by the NCCL group over NCCL emulated on the CPU. Not a GPU.
#include "tests/conformance/process_group_suite.h"
#include "tests/support/emulated_ranks.h"

namespace lockstep::conformance {
namespace {

Backend emulated_of(std::int32_t n_ranks) {
  return {"Ranks" + std::to_string(n_ranks), n_ranks, [n_ranks](const Program& program) {
            const testing::Emulation emulation;
            testing::run_emulated_ranks(emulation, {.n_ranks = n_ranks}, program);
            // Whatever the program did, nothing of it is left on the device.
            EXPECT_EQ(emulation.bytes_allocated(), 0);
            EXPECT_EQ(emulation.n_handles(), 0);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    EmulatedNccl,
    ProcessGroupConformance,
    ::testing::ValuesIn(promises_of(
        {emulated_of(1), emulated_of(2), emulated_of(3), emulated_of(4), emulated_of(8)})),
    conformance_name);

}  // namespace
}  // namespace lockstep::conformance
