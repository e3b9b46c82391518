// Post-local SGD on simulated ranks, whose groups can be split.
#include <gtest/gtest.h>

#include "lockstep/hooks/post_local_sgd_hook.h"

#include "tests/golden/golden_bits.h"
#include "tests/hooks/golden_case.h"
#include "tests/sim/group/group_fixture.h"

namespace lockstep {
namespace {

using sim::RankHandle;
using sim::testing::run_groups;
using Values = std::vector<double>;

/// Ranks in pairs; a single one at the end stays alone.
std::unique_ptr<ProcessGroup> split_in_pairs(ProcessGroup& group) {
  std::unique_ptr<ProcessGroup> mine;
  for (std::int32_t first = 0; first < group.size(); first += 2) {
    std::vector<std::int32_t> ranks = {first};
    if (first + 1 < group.size()) ranks.push_back(first + 1);
    std::unique_ptr<ProcessGroup> pair = group.split(ranks);
    if (pair != nullptr) mine = std::move(pair);
  }
  return mine;
}

TEST(PostLocalSgdHookTest, AveragesGloballyThenWithinTheSubgroupAndStopsCounting) {
  std::vector<Values> results(4);
  run_groups({.n_ranks = 4}, [&](ProcessGroup& group, RankHandle&) {
    const auto pair = split_in_pairs(group);
    PostLocalSgdHook hook(group, {.subgroup = pair.get(), .start_iter = 1});
    for (int step = 0; step < 3; ++step) {
      GradBucket bucket = testing::make_bucket(group.runtime(), Values{group.rank() * 4.0});
      results[static_cast<std::size_t>(group.rank())].push_back(
          testing::run_and_wait(hook, bucket).item());
    }
    EXPECT_EQ(hook.iteration(), 1);
  });

  EXPECT_EQ(results[0], (Values{6, 2, 2}));
  EXPECT_EQ(results[1], (Values{6, 2, 2}));
  EXPECT_EQ(results[2], (Values{6, 10, 10}));
  EXPECT_EQ(results[3], (Values{6, 10, 10}));
}

TEST(PostLocalSgdHookTest, ResultsEqualPyTorchs) {
  const std::vector<golden::HookCase> cases = golden::hook_cases("local");
  ASSERT_FALSE(cases.empty());

  for (const golden::HookCase& one : cases) {
    std::vector<std::vector<std::string>> results(static_cast<std::size_t>(one.n_ranks));
    run_groups({.n_ranks = one.n_ranks, .group = {.order = ReductionOrder::kGlooRing}},
               [&](ProcessGroup& group, RankHandle&) {
                 const auto pair = split_in_pairs(group);
                 PostLocalSgdHook hook(
                     group,
                     {.subgroup = pair.get(),
                      .start_iter = one.option("start", 0),
                      .post_local_gradient_allreduce = one.option("inside", 1) != 0});
                 for (std::int64_t step = 0; step < one.n_steps; ++step) {
                   for (std::size_t b = 0; b < one.buckets.size(); ++b) {
                     GradBucket bucket = one.bucket(group.runtime(), b);
                     one.fill(bucket, step, group.rank());
                     golden::append_short(results[static_cast<std::size_t>(group.rank())],
                                          testing::run_and_wait(hook, bucket));
                   }
                 }
               });
    EXPECT_EQ(one.layout(results), one.results) << one.text;
  }
}

TEST(PostLocalSgdHookTest, NeedsASubgroupUnlessGradientsStayLocal) {
  run_groups({.n_ranks = 1}, [](ProcessGroup& group, RankHandle&) {
    EXPECT_THROW(PostLocalSgdHook(group, {.start_iter = 1}), ContractViolation);
    EXPECT_NO_THROW(PostLocalSgdHook(group, {.post_local_gradient_allreduce = false}));
  });
}

}  // namespace
}  // namespace lockstep
