// decisions-uniform on models that are trained in evaluation mode: its advice.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// Forwards, one letter each: t in training mode, e in evaluation mode, each with its step; v one that
/// keeps its graph without a step, n one that keeps none, p one past the wrapper with a step, all of them
/// in evaluation mode.
DdpJob with_forwards(std::string_view forwards,
                     std::string_view of_rank_1,
                     bool synchronizes = true) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    for (const char what : rank == 0 ? forwards : of_rank_1) {
      Position& position = job.at(rank);
      if (what != 'n') ++position.sync;
      ++position.micro;
      job.stream.add(rank,
                     ForwardEvent{.through_wrapper = what != 'p',
                                  .synchronizing = synchronizes,
                                  .training = what == 't',
                                  .grad = what != 'n'});
      if (what == 't' || what == 'e' || what == 'p') ++job.at(rank).opt;
    }
  }
  return job;
}

std::string advised_in_mode(std::string_view forwards,
                            std::string_view of_rank_1 = {},
                            bool synchronizes = true) {
  const DdpJob job =
      with_forwards(forwards, of_rank_1.empty() ? forwards : of_rank_1, synchronizes);
  const LawResult result = check("decisions-uniform", job.stream);
  const LawResult together = testing::check_together("decisions-uniform", job.stream);
  EXPECT_EQ(result.advice.size(), together.advice.size());
  const std::vector<std::uint32_t> rank_1_lags = {0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1};
  EXPECT_EQ(
      check("decisions-uniform", job.stream, testing::policy_of(2), rank_1_lags).advice.size(),
      result.advice.size());
  std::string text;
  for (const Advice& advice : result.advice) text += advice.id + ": " + advice.message;
  return text;
}

TEST(EvaluationModeTest, TrainingThatNeverComesBackFromAnEvaluationGetsAdvice) {
  EXPECT_EQ(advised_in_mode("ttneee"),
            "A-stays-in-evaluation: the model is trained in eval mode from step 2 to the last "
            "step, after training in train mode. With dropout or batch norm, call model.train() "
            "after each evaluation.");
  EXPECT_NE(advised_in_mode("ttnttneee"), "");
}

TEST(EvaluationModeTest, TrainingThatComesBackOrBeginsInEvaluationModeIsFine) {
  EXPECT_EQ(advised_in_mode("ttneeet"), "");
  EXPECT_EQ(advised_in_mode("eeeeee"), "");
  EXPECT_EQ(advised_in_mode("tttttt"), "");
}

TEST(EvaluationModeTest, EvaluationsThatKeepTheirGraphsAreNoTraining) {
  EXPECT_EQ(advised_in_mode("ttvvvvvtt"), "");
  EXPECT_EQ(advised_in_mode("ttvvvvv"), "");
  EXPECT_EQ(advised_in_mode("ttee"), "");  // Of two, one step may belong to either.
}

TEST(EvaluationModeTest, ALoopThatReducesByItselfIsATraining) {
  EXPECT_NE(advised_in_mode("ttneee", {}, false), "");
}

TEST(EvaluationModeTest, ForwardsPastTheWrapperAreNotTraining) {
  EXPECT_EQ(advised_in_mode("ttnpppp"), "");
  EXPECT_EQ(advised_in_mode("ttnpnpnp"), "");
}

TEST(EvaluationModeTest, RanksThatDifferAreAFinding) {
  EXPECT_EQ(advised_in_mode("ttneee", "ttnttt"), "");
  const DdpJob job = with_forwards("ttneee", "ttnttt");
  EXPECT_EQ(check("decisions-uniform", job.stream).verdict, Verdict::kBroken);
}

}  // namespace
}  // namespace lockstep
