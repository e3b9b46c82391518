// What errors say when a contract of process groups and what is built on them is broken: which
// operation, which rank, how many elements.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/collectives/message_batch.h"
#include "lockstep/collectives/monitored_barrier.h"
#include "lockstep/collectives/new_group.h"
#include "lockstep/comm/loopback_group.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/reducer/bucket_plan.h"

#include "tests/support/complaint.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::complaint_of;
using testing::expect_complaints;
using testing::MiniRank;
using testing::run_mini_world;
using testing::TestRuntime;

/// What rank 2 of four says; nothing is posted.
void on_rank_two_of_four(const std::function<void(ProcessGroup&)>& check) {
  const auto run = run_mini_world({.n_ranks = 4}, [&](MiniRank& rank) {
    if (rank.rank == 2) check(rank.group);
  });
  ASSERT_TRUE(run.ok()) << run.error(2);
}

TEST(ProcessGroupContractsTest, NameTheOperationAndTheRank) {
  on_rank_two_of_four([](ProcessGroup& group) {
    std::vector<float> values(4);
    const Memory four = Memory::of(std::span(values));
    const std::vector<Memory> two = {four, four};

    expect_complaints({
        {[&] { (void)group.broadcast(four, 7); }, "root 7 of broadcast: the group has 4 ranks"},
        {[&] { (void)group.reduce(four, -1); }, "root -1 of reduce: the group has 4 ranks"},
        {[&] { (void)group.send(four, 4); }, "peer 4 of send: the group has 4 ranks"},
        {[&] { (void)group.send(four, 2); }, "it is itself the peer of a send"},
        {[&] { (void)group.recv(four, 2); }, "it is itself the peer of a recv"},
        {[&] { (void)group.gather(two, four, 0); },
         "gather got 2 outputs on rank 2: only the root, rank 0, receives"},
        {[&] { (void)group.all_gather(two, four); },
         "all_gather got 2 buffers: it takes one for each rank of the group, which has 4"},
    });
  });
}

TEST(ProcessGroupContractsTest, NameTheSizes) {
  on_rank_two_of_four([](ProcessGroup& group) {
    std::vector<float> values(6);
    std::vector<double> doubles(2);
    const Memory six = Memory::of(std::span(values));
    const Memory one = six.slice(0, 1);
    const std::vector<Memory> ones = {one, one, one, one};
    const std::vector<Memory> mixed = {one, one, Memory::of(std::span(doubles)), one};
    const std::array<std::int64_t, 4> splits = {1, 2, 1, 1};

    expect_complaints({
        {[&] {
           (void)group.all_reduce({nullptr, 3, DType::kF32, Device::kCpu});
         },
         "all_reduce got a null buffer of 3 f32"},
        {[&] { (void)group.all_gather(mixed, one); },
         "all_gather got buffers of f32 on cpu and of f64 on cpu: they share dtype and device"},
        {[&] { (void)group.all_gather(ones, six); },
         "this rank's own output of all_gather has 1 elements, not 6"},
        {[&] { (void)group.all_gather_into_tensor(six, one); },
         "the output for all ranks of all_gather has 6 elements, not 4"},
        {[&] { (void)group.reduce_scatter_tensor(one, six); },
         "the input for all ranks of reduce_scatter has 6 elements, not 4"},
        {[&] { (void)group.all_reduce(one, ReduceOp::kBand); },
         "cannot use band with non-integral dtype f32"},
        {[&] { (void)group.all_to_all_single(six, six); },
         "Tensor's dim 0 does not divide equally across group size: 6 elements, 4 ranks"},
        {[&] { (void)group.all_to_all_single(six, six, splits, splits); },
         "Split sizes doesn't match total dim 0 size: [1, 2, 1, 1] of 6 elements"},
    });
  });
}

TEST(ProcessGroupContractsTest, NameTheRanksOfNewGroups) {
  on_rank_two_of_four([](ProcessGroup& group) {
    const std::array<std::int32_t, 2> beyond = {1, 4};
    const std::array<std::int32_t, 2> twice = {3, 3};

    expect_complaints({
        {[&] { new_group(group, beyond); }, "new_group got ranks 1, 4: the world has 4"},
        {[&] { new_group(group, twice); }, "new_group got ranks 3, 3: a group lists a rank once"},
        {[&] { new_group(group, {}); },
         "new_group got no ranks of the world of 4: a group has at least one"},
        {[&] { new_subgroups(group, 3); },
         "The world size must be divisible by 'group_size': 4 by 3"},
        {[&] { new_subgroups(group, 8); },
         "The arg 'group_size' must not exceed the world size: 8 of 4"},
        {[&] { monitored_barrier(group, Duration{0}); },
         "a monitored barrier needs a positive timeout, not 0 ns"},
    });
  });
}

TEST(ProcessGroupContractsTest, AreNotSaidWhereTheyAreKept) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  std::vector<float> values(4);

  EXPECT_EQ(complaint_of([&] { (void)group->broadcast(Memory::of(std::span(values)), 0); }),
            "(no contract was broken)");
}

TEST(ReductionOrderContractsTest, NameTheRing) {
  const std::vector<std::vector<std::int32_t>> rings = {{0, 1, 2}, {0, 2, 2}};

  expect_complaints({
      {[] {
         ReductionOrder({{0, 1, 2}, {0, 2, 2}});
       },
       "ring 0, 2, 2 is not an order of ranks 0 to 2: every ring lists all ranks once"},
      {[] { ReductionOrder(ReductionOrder::kGlooRing, {.n_channels = 3}); },
       "'gloo-ring' with 3 channels: NCCL's orders have 1 to 64, the others one"},
      {[] { ReductionOrder(ReductionOrder::kRank, {.protocol = NcclProtocol::kLl}); },
       "'rank' with protocol '.ll': only NCCL's orders have protocols"},
      {[] { ReductionOrder(ReductionOrder::kNcclTree, {.n_channels = 4, .tree_period = 3}); },
       "'nccl-tree' whose trees repeat after 3 channels: an even number, at most 64"},
  });
}

TEST(BucketPlanContractsTest, NameTheNumbers) {
  const std::array<PlannedTensor, 2> tensors{};
  const std::array<std::int64_t, 1> limit = {1};
  const std::array<std::int32_t, 1> one = {0};

  expect_complaints({
      {[&] { compute_bucket_assignment_by_size(tensors, limit, one); },
       "an index map of 1 entries for 2 tensors"},
  });
}

}  // namespace
}  // namespace lockstep
