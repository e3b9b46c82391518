#include "lockstep/harness/whatif/sweep.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Values = std::vector<std::string>;

TEST(SweepTest, ValuesAreSplitAtCommasOutsideOfBracketsAndQuotes) {
  const auto swept =
      parse_swept("sim.compute.slow=[], [{ ranks = [1, 2], factor = 2.0 }] ,\"a,b\"");
  ASSERT_TRUE(swept.ok()) << swept.error().text();
  EXPECT_EQ(swept.value().key, "sim.compute.slow");
  EXPECT_EQ(swept.value().values, (Values{"[]", "[{ ranks = [1, 2], factor = 2.0 }]", "\"a,b\""}));
}

TEST(SweepTest, WhatIsNoListOfValuesIsRefusedWithWhatIsWrong) {
  EXPECT_EQ(parse_swept("ddp").error().text(),
            "--sweep 'ddp': expected KEY=VALUE,VALUE,..., such as ddp.bucket_cap_mb=1,5,25");
  EXPECT_EQ(parse_swept("=1,2").error().text(),
            "--sweep '=1,2': expected KEY=VALUE,VALUE,..., such as ddp.bucket_cap_mb=1,5,25");
  EXPECT_EQ(parse_swept("a=1,,2").error().text(), "--sweep 'a=1,,2': a value is empty");
  EXPECT_EQ(parse_swept("a=").error().text(), "--sweep 'a=': a value is empty");
  EXPECT_EQ(parse_swept("a=[1,2").error().text(),
            "--sweep 'a=[1,2': a bracket or a quote is not closed");
  EXPECT_EQ(parse_swept("a=1]").error().text(),
            "--sweep 'a=1]': a bracket or a quote is not closed");
}

TEST(SweepTest, EachValueMeetsEachOtherOneAndTheLastKeyChangesFastest) {
  const auto all = combinations({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  ASSERT_TRUE(all.ok());
  std::vector<std::string> seen;
  for (const std::vector<Setting>& each : all.value()) {
    ASSERT_EQ(each.size(), 2U);
    seen.push_back(each[0].key + each[0].value + each[1].key + each[1].value);
  }
  EXPECT_EQ(seen, (Values{"a1bx", "a1by", "a1bz", "a2bx", "a2by", "a2bz"}));
}

TEST(SweepTest, AKeyMayNotBeNamedTwice) {
  const auto all = combinations({{"a", {"1"}}, {"b", {"1"}}, {"a", {"2"}}});
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().text(), "--sweep names 'a' twice; give all its values at once");
}

TEST(SweepTest, TooManyCombinationsAreRefusedBeforeTheyAreMade) {
  const Values hundred(100, "1");
  EXPECT_TRUE(combinations({{"a", hundred}, {"b", hundred}}).ok());
  const auto all = combinations({{"a", hundred}, {"b", hundred}, {"c", {"1", "2"}}});
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().text(), "--sweep asks for more than 10000 combinations");
}

}  // namespace
}  // namespace lockstep
