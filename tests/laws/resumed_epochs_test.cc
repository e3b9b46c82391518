// set_epoch() in jobs that are resumed: advice of epoch-reshuffled.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// What is advised of a rank whose passes have these epochs, where a sampler adds them to seed 7.
std::string advised_of_epochs(const std::vector<std::int32_t>& epochs,
                              std::string_view sampler = "distributed") {
  DdpJob job(1);
  for (const std::int32_t epoch : epochs) {
    job.at(0).epoch = epoch;
    job.stream.add(0,
                   EpochEvent{.split = job.stream.name("train"),
                              .sampler = job.stream.name(sampler),
                              .generator_key = 7 + static_cast<std::uint64_t>(epoch),
                              .order_digest = 1 + static_cast<std::uint64_t>(epoch),
                              .dataset_size = 64,
                              .n_replicas = 1,
                              .shuffle = true});
    ++job.at(0).opt;
  }
  std::string text;
  for (const Advice& advice : check("epoch-reshuffled", job.stream).advice) {
    text += advice.id + ": " + advice.message;
  }
  return text;
}

TEST(ResumedEpochsTest, AFirstPassInTheOrderOfEpoch0BeforeALaterEpochGetsAdvice) {
  EXPECT_EQ(
      advised_of_epochs({0, 4, 5, 6}),
      "A-epoch-set-late: the first pass used the order of epoch 0 and the second that of epoch "
      "4. In a resumed job, call set_epoch(epoch) before each pass, also before the first.");
}

TEST(ResumedEpochsTest, APassThatIsRepeatedLaterIsNoOtherStep) {
  EXPECT_NE(advised_of_epochs({0, 4, 5, 5, 6}), "");
}

TEST(ResumedEpochsTest, EpochsThatFollowOneAnotherAreRight) {
  EXPECT_EQ(advised_of_epochs({0, 1, 2, 3}), "");
  EXPECT_EQ(advised_of_epochs({3, 4, 5}), "") << "resumed";
}

TEST(ResumedEpochsTest, ASamplerThatBeginsAgainIsCountedAnew) {
  EXPECT_NE(advised_of_epochs({0, 1, 2, 0, 4, 5}), "");
  EXPECT_EQ(advised_of_epochs({0, 1, 2, 0, 1, 2}), "");
}

TEST(ResumedEpochsTest, OtherStepsOfEpochsAreAProgramsOwn) {
  EXPECT_EQ(advised_of_epochs({0, 2, 4, 6}), "") << "every second one";
  EXPECT_EQ(advised_of_epochs({0, 1, 5, 6}), "") << "not the second pass";
  EXPECT_EQ(advised_of_epochs({0, 4}), "") << "two passes show no habit";
  EXPECT_EQ(advised_of_epochs({0, 4, 5, 6}, "MySampler"), "") << "its keys are unknown";
}

}  // namespace
}  // namespace lockstep
