// What a rank of a process runs on: host memory, or the device that its backend opens.
#include "lockstep/real/session/rank_session.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/comm/comm_status.h"
#include "lockstep/comm/loopback_group.h"
#include "lockstep/kernels/exact_observer.h"

#include "tests/support/counting_accelerator.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

Result<std::unique_ptr<ProcessGroup>> alone(const BackendOptions& /*options*/, Runtime& runtime) {
  return make_loopback_group(runtime);
}

Result<std::unique_ptr<Accelerator>> counting_device(const BackendOptions& /*options*/) {
  return std::unique_ptr<Accelerator>(std::make_unique<testing::CountingAccelerator>());
}

Result<std::unique_ptr<Accelerator>> no_device(const BackendOptions& options) {
  return Error{"device " + std::to_string(options.place.local_rank) + " is on fire", {}};
}

class RankSessionTest : public ::testing::Test {
 protected:
  /// Runs one rank that looks at its runtime.
  template <typename F>
  Result<RankSessionResult> run(const Backend& backend, bool exact, F look) {
    RankSessionOptions options;
    options.backend.rendezvous = folder_.path();
    options.record = false;
    options.exact = exact;
    return run_this_rank(backend, options, [&](RankContext& context) { look(context.runtime()); });
  }

  testing::TempFolder folder_;
};

TEST_F(RankSessionTest, WithoutADeviceTensorsLiveInHostMemory) {
  const Backend backend{.name = "alone", .connect = alone};
  const auto result =
      run(backend, false, [](Runtime& runtime) { EXPECT_EQ(runtime.accelerator(), nullptr); });

  EXPECT_TRUE(result.ok());
}

TEST_F(RankSessionTest, ABackendsDeviceHoldsAndComputesTheTensors) {
  const Backend backend{.name = "alone", .connect = alone, .open_device = counting_device};
  const auto result = run(backend, false, [](Runtime& runtime) {
    auto& device = dynamic_cast<testing::CountingAccelerator&>(*runtime.accelerator());
    const Tensor tensor = Tensor::full(runtime, {3}, DType::kF32, 1.0);
    EXPECT_EQ(&runtime.kernels(), &device.kernels());
    EXPECT_EQ(device.blocks.count(tensor.raw()), 1U);
  });

  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().exception, nullptr);
}

TEST_F(RankSessionTest, ExactJobsComputeWhereRoundingIsSeen) {
  const Backend backend{.name = "alone", .connect = alone, .open_device = counting_device};
  const auto result = run(backend, true, [](Runtime& runtime) {
    const Tensor third = Tensor::full(runtime, {1}, DType::kF32, 1.0);
    EXPECT_NE(&runtime.kernels(), &runtime.accelerator()->kernels());
    EXPECT_THROW(runtime.kernels().div_scalar(third, third, 3.0), InexactOperation);
  });

  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().exception, nullptr);
}

TEST_F(RankSessionTest, ADeviceThatDoesNotOpenIsReportedInItsOwnWords) {
  const Backend backend{.name = "alone", .connect = alone, .open_device = no_device};
  const auto result = run(backend, false, [](Runtime&) { FAIL() << "nothing to run on"; });

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "device 0 is on fire");
}

TEST_F(RankSessionTest, AnExceptionOfTheProgramIsTheRanksOwnFailure) {
  const Backend backend{.name = "alone", .connect = alone};
  const auto result =
      run(backend, false, [](Runtime&) { throw std::runtime_error("no such layer"); });

  ASSERT_TRUE(result.ok());
  EXPECT_NE(result.value().exception, nullptr);
  EXPECT_EQ(result.value().failure, FailureOrigin::kOwn);
  EXPECT_EQ(result.value().report.error, "at least one rank did not finish");
}

TEST_F(RankSessionTest, AFailedCollectiveIsNotTheRanksOwnFailure) {
  const Backend backend{.name = "alone", .connect = alone};
  const auto result = run(backend, false, [](Runtime&) {
    throw CommError(CommStatus::kPeerLost, Signature{}, "rank 1 is gone");
  });

  ASSERT_TRUE(result.ok());
  EXPECT_NE(result.value().exception, nullptr);
  EXPECT_EQ(result.value().failure, FailureOrigin::kOfGroup);
}

}  // namespace
}  // namespace lockstep
