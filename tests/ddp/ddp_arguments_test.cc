// Arguments that are refused before anything is sent.
#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;

std::string refusal(const DdpOptions& options, bool trainable = true) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const double zero[] = {0};
    model.parameter("a", zero, DType::kF32, trainable);
    const Ddp ddp(model.state(), rank.group, options);
  });
  EXPECT_TRUE(result.ok() || collectives_of(*result.trace, 0).empty());
  return result.error(0);
}

TEST(DdpArgumentsTest, DevicesAreForModelsOfOneDevice) {
  const std::string text =
      "DistributedDataParallel device_ids and output_device arguments only work with "
      "single-device/multiple-device GPU modules or CPU modules, but got device_ids ";
  EXPECT_EQ(refusal({.device_ids = {1}}),
            text + "[1], output_device None, and module parameters {device(type='cpu')}.");
  EXPECT_EQ(refusal({.output_device = 1}),
            text + "None, output_device 1, and module parameters {device(type='cpu')}.");
}

TEST(DdpArgumentsTest, OutputDeviceZeroPassesAsNone) {
  EXPECT_EQ(refusal({.output_device = 0}), "");
}

TEST(DdpArgumentsTest, TheEarlierOfTwoMistakesIsReported) {
  EXPECT_EQ(refusal({.device_ids = {0, 1}, .output_device = 1}),
            "device_ids can only be None or contain a single element.");
  EXPECT_EQ(refusal({.device_ids = {0, 1}}, false),
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient.");
}

}  // namespace
}  // namespace lockstep
