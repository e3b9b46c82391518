#include "lockstep/gpu/nccl/result_text.h"

#include <gtest/gtest.h>

namespace lockstep::nccl {
namespace {

TEST(ResultTextTest, EveryResultHasWords) {
  EXPECT_EQ(text_of(Status::kSuccess), "it went well (ncclSuccess, 0)");
  EXPECT_EQ(text_of(Status::kUnhandledCudaError),
            "a CUDA call inside NCCL failed (ncclUnhandledCudaError, 1)");
  EXPECT_EQ(text_of(Status::kRemoteError),
            "a peer's process ended or the network failed (ncclRemoteError, 6)");
  EXPECT_EQ(text_of(Status::kInProgress), "it is still under way (ncclInProgress, 7)");
  EXPECT_EQ(text_of(static_cast<Status>(99)),
            "a result that this program does not know (unknown, 99)");
}

}  // namespace
}  // namespace lockstep::nccl
