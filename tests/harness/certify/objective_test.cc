#include "lockstep/harness/certify/objective.h"

#include <gmock/gmock.h>
#include <string>

#include <gtest/gtest.h>

namespace lockstep {

namespace {

using ::testing::HasSubstr;

TEST(ObjectiveTest, IsReadAsItIsWritten) {
  for (const char* text : {"sample-mean", "token-mean", "sum", "rank-mean", "1/4,3/4", "0,1"}) {
    const Result<Objective> objective = parse_objective(text, 2);
    ASSERT_TRUE(objective.ok()) << text;
    EXPECT_EQ(objective.value().text(), text);
  }
}

TEST(ObjectiveTest, SuggestsTheWordThatWasMeant) {
  const Result<Objective> objective = parse_objective("token-meen", 2);
  ASSERT_FALSE(objective.ok());
  EXPECT_THAT(objective.error().text(), HasSubstr("did you mean 'token-mean'?"));
}

TEST(ObjectiveTest, WantsOneWeightPerRank) {
  for (const char* text : {"1/4", "1/4,1/4,1/2", "1/4,", "-1/4,5/4", "1/0,1"}) {
    const Result<Objective> objective = parse_objective(text, 2);
    ASSERT_FALSE(objective.ok()) << text;
    EXPECT_THAT(objective.error().text(), HasSubstr("not one weight per rank")) << text;
    EXPECT_THAT(objective.error().text(), HasSubstr("2 ranks")) << text;
  }
}

}  // namespace

}  // namespace lockstep
