#include "lockstep/laws/rules/detail/mean/mean_judge.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

/// Two ranks whose gradients are 2 and 6 in each projection: their mean is 4.
class MeanJudgeTest : public ::testing::Test {
 protected:
  MeanJudgeTest() {
    const std::array<NameId, 1> names = {names_.intern("weight")};
    at_.layout = static_cast<std::uint32_t>(names_.intern_layout(names));
    Batches batches;
    batches.add({.n_samples = 1, .denominator = 1.0});
    open_.batches.push_back(batches);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      open_.locals.push_back({.rank = rank, .place = static_cast<std::size_t>(rank)});
    }
    open_.sketches = {flat(2.0), flat(6.0)};
    open_.undefined = {0, 0};
    open_.n_tensors = 1;
    open_.n_bytes = 1;
    open_.n_elems = {1};
  }

  static Sketch flat(double value) { return {value, {value, value, value, value}}; }

  void publish(double value, std::vector<Rank> ranks) {
    open_.published.push_back(
        {.digests = {0}, .sketches = {flat(value)}, .undefined = {0}, .ranks = std::move(ranks)});
  }

  std::vector<Finding> judge(const LawPolicy& policy = {.exact = true}) {
    MeanJudge judge(policy);
    judge.judge({at_, open_, wrappers_, names_}, travel_);
    n_checked_ = judge.n_checked();
    missing_ = judge.missing();
    return judge.take_findings();
  }

  NameTable names_;
  AlignmentKey at_;
  OpenReduction open_;
  Wrappers wrappers_;
  GradientTravel travel_{true};
  std::int64_t n_checked_ = 0;
  std::string missing_;
};

TEST_F(MeanJudgeTest, TheMeanHolds) {
  publish(4.0, {Rank{0}, Rank{1}});
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(n_checked_, 1);
}

TEST_F(MeanJudgeTest, ASumIsReportedWithTheWeightsItHas) {
  publish(8.0, {Rank{0}, Rank{1}});
  const std::vector<Finding> findings = judge();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "weight");
  EXPECT_EQ(findings[0].declared, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(findings[0].weights, (std::vector<double>{1.0, 1.0}));
}

TEST_F(MeanJudgeTest, WhatOnlySomeRanksWereGivenWrongWasLostAfterTheReduction) {
  publish(4.0, {Rank{0}});
  publish(5.0, {Rank{1}});
  const std::vector<Finding> findings = judge();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, Cause::kSdcAfterReduce);
  EXPECT_EQ(n_checked_, 2);
}

TEST_F(MeanJudgeTest, ATensorIsReportedOnce) {
  publish(8.0, {Rank{0}, Rank{1}});
  MeanJudge judge({.exact = true});
  judge.judge({at_, open_, wrappers_, names_}, travel_);
  judge.judge({at_, open_, wrappers_, names_}, travel_);
  EXPECT_EQ(judge.take_findings().size(), 1U);
  EXPECT_EQ(judge.n_checked(), 2);
}

TEST_F(MeanJudgeTest, AHookThatDoesSomethingElseOnPurposeIsNotJudged) {
  publish(5.0, {Rank{0}, Rank{1}});
  travel_.on_hook({}, {.effect = HookEffect::kOther});
  at_.wrapper = wrapper_of({});
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(n_checked_, 0);
  EXPECT_NE(missing_.find("without a hook"), std::string::npos) << missing_;
}

TEST_F(MeanJudgeTest, WithoutSketchesNothingCanBeJudged) {
  publish(8.0, {Rank{0}, Rank{1}});
  open_.sketched = false;
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(n_checked_, 0);
}

TEST_F(MeanJudgeTest, APolicyMayDeclareASum) {
  publish(8.0, {Rank{0}, Rank{1}});
  EXPECT_TRUE(judge({.exact = true, .declared_mean = "sum"}).empty());
  EXPECT_EQ(n_checked_, 1);
}

}  // namespace
}  // namespace lockstep::laws
