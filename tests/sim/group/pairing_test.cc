#include <gmock/gmock.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::at;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::ones;
using testing::run_groups;

constexpr CommStatus kUnset = CommStatus::kAborted;

// Status and detail of one operation per rank, under strict pairing by default.
struct Outcomes {
  std::vector<CommStatus> statuses;
  std::vector<std::string> details;
};

Outcomes outcomes(std::int32_t n_ranks,
                  Pairing pairing,
                  const std::function<Work(ProcessGroup&, const Tensor&)>& call) {
  Outcomes seen{std::vector<CommStatus>(static_cast<std::size_t>(n_ranks), kUnset), {}};
  seen.details.resize(static_cast<std::size_t>(n_ranks));
  run_groups({.n_ranks = n_ranks, .group = {.pairing = pairing}, .keep_going = true},
             [&](ProcessGroup& group, RankHandle& rank) {
               const Tensor data = ones(group, 16);
               const Work work = call(group, data);
               seen.statuses[to_index(rank.rank())] = work.wait();
               try {
                 work.wait_or_throw();
               } catch (const CommError& error) {
                 seen.details[to_index(rank.rank())] = error.what();
               }
             });
  return seen;
}

TEST(PairingTest, NamesParse) {
  EXPECT_EQ(parse_enum<Pairing>("strict"), Pairing::kStrict);
  EXPECT_EQ(parse_enum<Pairing>("nccl_like"), Pairing::kNcclLike);
  EXPECT_EQ(parse_enum<Pairing>("gloo_like"), Pairing::kGlooLike);
  EXPECT_EQ(parse_enum<Pairing>("mpi"), std::nullopt);
}

TEST(PairingTest, AMismatchFailsOnEveryMemberAndNamesTheField) {
  const Outcomes seen = outcomes(3, Pairing::kStrict, [](ProcessGroup& group, const Tensor& data) {
    const Memory memory = Memory::of(data);
    if (group.rank() == 1) return group.barrier(at("save.py", 12));
    return group.all_reduce(memory, ReduceOp::kSum, at("train.py", 40));
  });
  EXPECT_EQ(seen.statuses, std::vector<CommStatus>(3, CommStatus::kMismatch));
  for (const std::string& detail : seen.details) {
    EXPECT_THAT(detail,
                HasSubstr("op differs at #0: rank 0 all_reduce (train.py:40), "
                          "rank 1 barrier (save.py:12)"));
  }
}

TEST(PairingTest, EachFieldThatMustAgreeIsCompared) {
  const auto field = [](const std::function<Work(ProcessGroup&, const Tensor&)>& call) {
    return outcomes(2, Pairing::kStrict, call).details[0];
  };
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                return group.all_reduce(Memory::of(data.slice(0, {4 + group.rank()})));
              }),
              HasSubstr("count differs"));
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                Memory memory = Memory::of(data);
                if (group.rank() == 1) memory.dtype = DType::kI32;
                return group.all_reduce(memory);
              }),
              HasSubstr("dtype differs"));
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                return group.all_reduce(Memory::of(data),
                                        group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax);
              }),
              HasSubstr("reduce differs"));
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                return group.broadcast(Memory::of(data), group.rank());
              }),
              HasSubstr("root differs"));
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                OpOptions options;
                options.layout = static_cast<std::uint64_t>(group.rank() + 1);
                return group.all_reduce(Memory::of(data), ReduceOp::kSum, options);
              }),
              HasSubstr("layout differs"));
  EXPECT_THAT(field([](ProcessGroup& group, const Tensor& data) {
                const std::vector<Memory> ins = {Memory::of(data.slice(0, {1})),
                                                 Memory::of(data.slice(1, {2}))};
                const std::vector<Memory> outs = {
                    Memory::of(data.slice(4, {group.rank() == 0 ? 1 : 3})),
                    Memory::of(data.slice(8, {2}))};
                return group.all_to_all(outs, ins);
              }),
              HasSubstr("splits differs"));
}

// `if rank == 0: broadcast(...) else: broadcast(...)` is a standard idiom.
TEST(PairingTest, TheCallSiteIsEvidenceOnly) {
  const Outcomes seen = outcomes(2, Pairing::kStrict, [](ProcessGroup& group, const Tensor& data) {
    return group.broadcast(Memory::of(data), 0, at("a.py", 3 + 2 * group.rank()));
  });
  EXPECT_EQ(seen.statuses, std::vector<CommStatus>(2, CommStatus::kOk));
}

TEST(PairingTest, GlooChecksBytesOnly) {
  const Outcomes sizes =
      outcomes(2, Pairing::kGlooLike, [](ProcessGroup& group, const Tensor& data) {
        return group.all_reduce(Memory::of(data.slice(0, {4 + group.rank()})));
      });
  EXPECT_EQ(sizes.statuses, std::vector<CommStatus>(2, CommStatus::kMismatch));
  const Outcomes ops = outcomes(2, Pairing::kGlooLike, [](ProcessGroup& group, const Tensor& data) {
    return group.all_reduce(Memory::of(data), group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax);
  });
  EXPECT_EQ(ops.statuses, std::vector<CommStatus>(2, CommStatus::kOk));
}

TEST(PairingTest, NcclReducesTheSmallestCount) {
  run_groups({.group = {.pairing = Pairing::kNcclLike}}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 4);
    const std::int64_t count = group.rank() == 0 ? 4 : 2;
    EXPECT_EQ(group.all_reduce(Memory::of(data.slice(0, {count}))).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(1), 2.0);
    EXPECT_EQ(data.at(3), 1.0);
  });
}

TEST(PairingTest, NcclHangsWhenDifferentKindsAreMatched) {
  const GroupRun run =
      run_groups({.group = {.pairing = Pairing::kNcclLike}}, [](ProcessGroup& group, RankHandle&) {
        const Tensor data = ones(group, 4);
        const Memory memory = Memory::of(data);
        const Work work = group.rank() == 0
                              ? group.broadcast(memory, 0, {.site = {"a.py", 1, ""}})
                              : group.all_reduce(memory, ReduceOp::kSum, at("b.py", 2));
        (void)work.wait();
      });
  ASSERT_TRUE(run.world.stuck.has_value());
  EXPECT_THAT(run.explanation, HasSubstr("called differently by rank 1"));
  EXPECT_THAT(run.explanation, HasSubstr("rank 0 broadcast (a.py:1), rank 1 all_reduce (b.py:2)"));
}

// Only rank 0 enters the barrier of its save: the barrier pairs with rank 1's all_reduce, and rank
// 0's own all_reduce waits forever.
TEST(PairingTest, AnExtraBarrierOnOneRankHangsLater) {
  std::vector<CommStatus> barrier(1, kUnset);
  const GroupRun run =
      run_groups({.group = {.pairing = Pairing::kNcclLike}}, [&](ProcessGroup& group, RankHandle&) {
        const Tensor data = ones(group, 4);
        if (group.rank() == 0) barrier[0] = group.barrier(at("save.py", 12)).wait();
        const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, at("train.py", 40));
        (void)work.wait();
      });
  EXPECT_EQ(barrier[0], CommStatus::kOk);
  ASSERT_TRUE(run.world.stuck.has_value());
  ASSERT_EQ(run.world.stuck->waiting.size(), 1U);
  EXPECT_EQ(run.world.stuck->waiting[0].rank, Rank{0});
  EXPECT_EQ(run.missing, std::vector<std::int32_t>{1});
  EXPECT_EQ(run.world.ends[0].outcome, RankOutcome::kStuck);
  EXPECT_EQ(run.world.ends[1].outcome, RankOutcome::kFinished);
  EXPECT_EQ(run.explanation,
            "rank 0 waits for all_reduce #1 of group 0 (4 x f32) at train.py:40; missing: rank 1, "
            "which ended normally\n"
            "first pairing of different calls in group 0: op differs at #0: rank 0 barrier "
            "(save.py:12), rank 1 all_reduce (train.py:40)\n");
}

TEST(PairingTest, MessagesOfDifferentSizeFailOnBothSides) {
  run_groups({.keep_going = true}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 4);
    const Work work = group.rank() == 0 ? group.send(Memory::of(data), 1)
                                        : group.recv(Memory::of(data.slice(0, {3})), 0);
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
  });
}

// As PyTorch has it: each list is a group, whichever number they share.
TEST(PairingTest, RanksThatListOtherMembersCallInGroupsOfTheirOwn) {
  const GroupRun run = run_groups({.n_ranks = 4}, [](ProcessGroup& group, RankHandle&) {
    const std::int32_t first = group.rank() < 2 ? 0 : 2;
    const std::vector<std::int32_t> pair = {first, first + 1};
    const auto mine = group.split(pair);
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(mine->id(), 1);
    const Tensor data = Tensor::full(group.runtime(), {1}, DType::kF32, 1.0 + group.rank());
    EXPECT_EQ(mine->all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(0), first == 0 ? 3.0 : 7.0);
    const Tensor other = ones(group, 1);
    const Work sent = mine->send(Memory::of(data), 1 - mine->rank());
    EXPECT_EQ(mine->recv(Memory::of(other), 1 - mine->rank()).wait(), CommStatus::kOk);
    EXPECT_EQ(sent.wait(), CommStatus::kOk);
    EXPECT_EQ(other.at(0), data.at(0));
  });
  EXPECT_FALSE(run.world.first_failure.has_value());
}

TEST(PairingTest, AMemberThatListsMoreRanksThanTheOthersWaitsForThem) {
  const GroupRun run = run_groups({}, [](ProcessGroup& group, RankHandle&) {
    const std::vector<std::int32_t> both = {0, 1};
    const auto mine = group.split(std::span(both).first(group.rank() == 0 ? 1 : 2));
    (void)mine->barrier(at("pair.cc", 4)).wait();
  });
  EXPECT_EQ(run.world.ends[0].outcome, RankOutcome::kFinished);
  EXPECT_EQ(run.explanation,
            "rank 1 waits for barrier #0 of group 1 at pair.cc:4; missing: rank 0, which ended "
            "normally\n");
}

}  // namespace
}  // namespace lockstep::sim
