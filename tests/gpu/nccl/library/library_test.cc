// The process group over the real NCCL. Where there is no GPU, that is the answer, and the rest is
// skipped with the reason.
#include "lockstep/gpu/nccl/library/library.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/nccl/result_text.h"
#include "lockstep/harness/backends/connect.h"
#include "lockstep/kernels/cpu_kernels.h"

#include "tests/conformance/process_group_suite.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_runtime.h"

namespace lockstep::conformance {

// Its cases run here one after another on the same ranks.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProcessGroupConformance);

}  // namespace lockstep::conformance

namespace lockstep::nccl {
namespace {

using testing::TempFolder;
using testing::TestRuntime;

constexpr int kNoDevice = 77;

BackendOptions options_of(std::int32_t rank, std::int32_t n_ranks, const std::string& folder) {
  BackendOptions options;
  options.place.rank = options.place.local_rank = rank;
  options.place.world_size = options.place.local_world_size = n_ranks;
  options.rendezvous = folder;
  return options;
}

/// The exit status of one rank that keeps all promises of a process group, or why it cannot.
int keep_promises(std::int32_t rank, std::int32_t n_ranks, const std::string& folder) {
  if (!obstacle_to_nccl().empty()) return kNoDevice;
  setenv("LOCKSTEP_SHARE_GPU", "1", 0);  // NOLINT(concurrency-mt-unsafe)
  int number = 0;
  for (const conformance::Case& one : conformance::process_group_cases()) {
    TestRuntime test;
    const std::string place = folder + "/" + std::to_string(number++);
    const auto group = connect_nccl(options_of(rank, n_ranks, place), test.runtime);
    if (!group.ok()) {
      ADD_FAILURE() << one.name << ": " << group.error().text();
      return testing::kChildFailed;
    }
    if (n_ranks >= one.min_ranks) one.program(*group.value());
    EXPECT_FALSE(::testing::Test::HasFailure()) << one.name;
  }
  return 0;
}

// In separate processes: a process that has asked CUDA for its devices must not be forked.
void expect_promises_kept(std::int32_t n_ranks) {
  const TempFolder folder;
  const std::vector<int> statuses = testing::run_processes(n_ranks, [&](int rank) {
    const int status = keep_promises(rank, n_ranks, folder.path());
    if (status == kNoDevice) _exit(kNoDevice);
  });
  const auto n_without = std::count(statuses.begin(), statuses.end(), kNoDevice);
  if (n_without == 0) {
    for (const int status : statuses) EXPECT_EQ(status, 0);
    return;
  }
  // A GPU that is there and does not work is a failure, and so are ranks that disagree about it.
  ASSERT_EQ(n_without, n_ranks);
  const cuda::DeviceCount devices = cuda::device_count();
  ASSERT_EQ(devices.count, 0);
  ASSERT_FALSE(devices.broken) << devices.reason;
  GTEST_SKIP() << "not run on a GPU: " << devices.reason;
}

TEST(NcclLibraryTest, OneRankKeepsAllPromises) { expect_promises_kept(1); }

TEST(NcclLibraryTest, TwoRanksOnOneGpuKeepAllPromises) { expect_promises_kept(2); }

TEST(NcclLibraryTest, ThreeRanksOnOneGpuKeepAllPromises) { expect_promises_kept(3); }

TEST(NcclLibraryTest, FourRanksOnOneGpuKeepAllPromises) { expect_promises_kept(4); }

TEST(NcclLibraryTest, EightRanksOnOneGpuKeepAllPromises) { expect_promises_kept(8); }

TEST(NcclLibraryTest, WithoutADeviceConnectingSaysSoInOneSentence) {
  const std::string obstacle = obstacle_to_nccl();
  if (obstacle.empty()) return;  // There is one.
  const TempFolder folder;
  TestRuntime test;
  const auto group = connect_nccl(options_of(0, 1, folder.path()), test.runtime);
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().text(), obstacle);
  EXPECT_EQ(obstacle.find("no CUDA device was found ("), 0U) << obstacle;
}

// The library itself is real here, GPU or not.
TEST(NcclLibraryTest, TheLibraryAnswersForItself) {
  const std::shared_ptr<Api> api = make_library();
  EXPECT_EQ(api->version_mismatch(), "");
  EXPECT_GE(api->library_version(), 20000);
  const Transfer nothing;
  const Status refused = api->all_reduce(nothing, RedOp::kSum, nullptr, nullptr);
  EXPECT_EQ(refused, Status::kInvalidArgument);
  const std::string text = describe(*api, "ncclAllReduce", refused, nullptr);
  EXPECT_EQ(
      text.find("ncclAllReduce: NCCL refused an argument (ncclInvalidArgument, 4); NCCL says"), 0U)
      << text;
}

}  // namespace
}  // namespace lockstep::nccl
