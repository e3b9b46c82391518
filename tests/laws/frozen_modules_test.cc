// init-equal: modules beside the wrapped model that nothing trains.
#include <gmock/gmock.h>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;

using Digests = std::vector<std::uint64_t>;  // By rank.

class ModulesJob {
 public:
  explicit ModulesJob(std::int32_t n_ranks) : job_(n_ranks) {}

  ModulesJob& draw(const Digests& of_rank) { return add(DataPart::kDrawn, "", of_rank); }

  ModulesJob& use(const Digests& of_rank, std::string_view name = "Projection") {
    return add(DataPart::kFrozen, name, of_rank);
  }

  std::vector<Advice> advice() const { return check("init-equal", job_.stream).advice; }

 private:
  ModulesJob& add(DataPart part, std::string_view name, const Digests& of_rank) {
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
      const auto number = static_cast<std::int32_t>(rank);
      job_.at(number).wrapper = -1;
      job_.stream.add(
          number,
          DataEvent{.part = part, .source = job_.stream.name(name), .digest = of_rank[rank]});
    }
    return *this;
  }

  DdpJob job_;
};

TEST(FrozenModulesTest, WhatEachRankDrewForItselfIsAdvised) {
  const auto advice = ModulesJob(3).draw({1, 2, 3}).use({4, 5, 6}).use({4, 5, 6}).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-drawn-apart");
  EXPECT_THAT(advice[0].message, HasSubstr("`Projection` differs between all ranks"));
}

TEST(FrozenModulesTest, SeveralModulesAreOneAdvice) {
  ModulesJob job(2);
  job.draw({1, 2}).use({4, 5}).use({4, 5}).use({6, 7}, "Codes").use({6, 7}, "Codes");
  const auto advice = job.advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message,
              HasSubstr("`Codes` (and 1 other module) differs between all ranks"));
}

TEST(FrozenModulesTest, WhatSomeRanksHaveAlikeIsMeantToBeSo) {
  EXPECT_TRUE(ModulesJob(3).draw({1, 2, 3}).use({4, 4, 4}).use({4, 4, 4}).advice().empty());
  EXPECT_TRUE(ModulesJob(3).draw({1, 2, 3}).use({4, 5, 4}).use({4, 5, 4}).advice().empty());
}

TEST(FrozenModulesTest, RanksWithOneSeedDrewNothingApart) {
  EXPECT_TRUE(ModulesJob(2).draw({1, 1}).use({4, 5}).use({4, 5}).advice().empty());
  EXPECT_TRUE(ModulesJob(2).use({4, 5}).use({4, 5}).advice().empty()) << "not known";
}

TEST(FrozenModulesTest, WhatChangesFollowsTheRanksOwnInputs) {
  EXPECT_TRUE(ModulesJob(2).draw({1, 2}).use({4, 5}).use({4, 6}).advice().empty());
  EXPECT_TRUE(ModulesJob(2).draw({1, 2}).use({4, 5}).advice().empty()) << "it may change";
}

TEST(FrozenModulesTest, AModuleOfSomeRanksIsTheirs) {
  EXPECT_TRUE(ModulesJob(3).draw({1, 2, 3}).use({4, 5}).use({4, 5}).advice().empty());
}

TEST(FrozenModulesTest, ModelsAreNoSamples) {
  DdpJob job(1);
  job.at(0).wrapper = -1;
  for (const DataPart part : {DataPart::kDrawn, DataPart::kFrozen}) {
    job.stream.add(0, DataEvent{.part = part, .source = job.stream.name("M"), .digest = 1});
  }
  EXPECT_EQ(check("samples-covered", job.stream).n_checked, 0);
}

}  // namespace
}  // namespace lockstep
