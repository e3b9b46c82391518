// Every operation of a group, asked for by ranks that compute elsewhere. Expected values by hand.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

constexpr std::int64_t kHour = 3'600'000'000'000;

class OperationsTest : public ::testing::TestWithParam<bool> {
 protected:
  /// Runs it on threads; each rank's values end up in `results`.
  Coordination run(int n_ranks, const std::function<std::vector<float>(RankClient&)>& program) {
    results.assign(static_cast<std::size_t>(n_ranks), {});
    CoordinatorOptions options;
    options.serial = GetParam();
    return coordinate_threads(n_ranks, options, [&](RankClient& client) {
      results[static_cast<std::size_t>(client.rank())] = program(client);
    });
  }

  std::vector<std::vector<float>> results;
};

INSTANTIATE_TEST_SUITE_P(InRoundsAndSerial, OperationsTest, ::testing::Bool());

TEST_P(OperationsTest, ReductionsOfEveryKindGiveTheirResults) {
  const auto found = run(3, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const auto mine = static_cast<float>(rank.rank() + 1);
    std::vector<float> all;
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      const Floats data = rank.floats({mine * mine});
      EXPECT_TRUE(rank.call(all_reduce(group, data, op)).ok());
      all.push_back(data.values[0]);
    }
    const Floats scaled = rank.floats({mine});
    PostRequest premul = all_reduce(group, scaled, ReduceOp::kPremulSum);
    premul.premul = 0.5;
    EXPECT_TRUE(rank.call(premul).ok());
    all.push_back(scaled.values[0]);
    return all;
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
  // 1 + 4 + 9, a third of it, 1 * 4 * 9, the least, the most; (1 + 2 + 3) / 2.
  for (const auto& result : results) EXPECT_THAT(result, ElementsAre(14, 14.0F / 3, 36, 1, 9, 3));
}

TEST_P(OperationsTest, CoalescedBuffersAreReducedTogether) {
  run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const auto mine = static_cast<float>(rank.rank());
    const Floats a = rank.floats({mine, 1});
    const Floats b = rank.floats({10 + mine});
    PostRequest both = exchange(group, CollectiveOp::kAllReduce, {a, b}, {a, b});
    both.flags = static_cast<std::uint8_t>(PostFlag::kCoalesced);
    EXPECT_TRUE(rank.call(both).ok());
    return std::vector{a.values[0], a.values[1], b.values[0]};
  });
  for (const auto& result : results) EXPECT_THAT(result, ElementsAre(1, 2, 21));
}

TEST_P(OperationsTest, RootsBroadcastReduceGatherAndScatter) {
  run(3, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const auto mine = static_cast<float>(rank.rank() + 1);
    const Floats sent = rank.floats({mine});
    EXPECT_TRUE(rank.call(broadcast(group, sent, 2)).ok());
    const Floats summed = rank.floats({mine});
    PostRequest reduce = all_reduce(group, summed);
    reduce.op = CollectiveOp::kReduce;
    reduce.root_or_peer = 0;
    EXPECT_TRUE(rank.call(reduce).ok());
    const bool root = rank.rank() == 1;
    const Floats parts = rank.floats({0, 0, 0});
    std::vector<Floats> list;
    if (root) list = {rank.slice(parts, 0, 1), rank.slice(parts, 1, 1), rank.slice(parts, 2, 1)};
    PostRequest gather = exchange(group, CollectiveOp::kGather, {rank.floats({mine * 10})}, list);
    gather.root_or_peer = 1;
    EXPECT_TRUE(rank.call(gather).ok());
    const Floats got = rank.floats({0});
    PostRequest scatter = exchange(group, CollectiveOp::kScatter, list, {got});
    scatter.root_or_peer = 1;
    EXPECT_TRUE(rank.call(scatter).ok());
    return std::vector{sent.values[0], summed.values[0], got.values[0]};
  });
  EXPECT_THAT(results[0], ElementsAre(3, 6, 10));
  EXPECT_THAT(results[1], ElementsAre(3, 2, 20));
  EXPECT_THAT(results[2], ElementsAre(3, 3, 30));
}

TEST_P(OperationsTest, GathersAndScattersTakeListsAndOneTensor) {
  run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const auto mine = static_cast<float>(rank.rank() + 1);
    const Floats own = rank.floats({mine});
    const Floats list = rank.floats({0, 0});
    EXPECT_TRUE(rank.call(exchange(group,
                                   CollectiveOp::kAllGather,
                                   {own},
                                   {rank.slice(list, 0, 1), rank.slice(list, 1, 1)}))
                    .ok());
    const Floats whole = rank.floats({0, 0});
    PostRequest tensor = exchange(group, CollectiveOp::kAllGather, {own}, {whole});
    tensor.flags = static_cast<std::uint8_t>(PostFlag::kTensor);
    EXPECT_TRUE(rank.call(tensor).ok());
    const Floats inputs = rank.floats({mine, mine * 10});
    const Floats part = rank.floats({0});
    PostRequest scatter = exchange(group, CollectiveOp::kReduceScatter, {inputs}, {part});
    scatter.flags = static_cast<std::uint8_t>(PostFlag::kTensor);
    EXPECT_TRUE(rank.call(scatter).ok());
    const Floats part_of_list = rank.floats({0});
    EXPECT_TRUE(rank.call(exchange(group,
                                   CollectiveOp::kReduceScatter,
                                   {rank.slice(inputs, 0, 1), rank.slice(inputs, 1, 1)},
                                   {part_of_list}))
                    .ok());
    std::vector<float> all = values(list);
    all.insert(all.end(), whole.values.begin(), whole.values.end());
    all.push_back(part.values[0]);
    all.push_back(part_of_list.values[0]);
    return all;
  });
  EXPECT_THAT(results[0], ElementsAre(1, 2, 1, 2, 3, 3));
  EXPECT_THAT(results[1], ElementsAre(1, 2, 1, 2, 30, 30));
}

TEST_P(OperationsTest, AllToAllTakesUnevenSplits) {
  run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    // Rank 0 keeps one and gives two, rank 1 gives none and keeps three.
    const bool first = rank.rank() == 0;
    const Floats input = first ? rank.floats({1, 2, 3}) : rank.floats({4, 5, 6});
    const Floats output = rank.floats(std::vector<float>(first ? 1 : 5));
    PostRequest request = exchange(group, CollectiveOp::kAllToAll, {input}, {output});
    request.flags = static_cast<std::uint8_t>(PostFlag::kTensor);
    request.input_splits =
        first ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{0, 3};
    request.output_splits =
        first ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{2, 3};
    EXPECT_TRUE(rank.call(request).ok());
    return values(output);
  });
  EXPECT_THAT(results[0], ElementsAre(1));
  EXPECT_THAT(results[1], ElementsAre(2, 3, 4, 5, 6));
}

TEST_P(OperationsTest, AsynchronousCallsOfTwoGroupsMayHaveOppositeOrders) {
  run(2, [](RankClient& rank) {
    const std::int32_t a = rank.join();
    const std::int32_t b = RankClient::handle(rank.open("1", {0, 1}));
    const Floats x = rank.floats({1});
    const Floats y = rank.floats({2});
    const bool first = rank.rank() == 0;
    const std::uint32_t one = rank.post(first ? all_reduce(a, x) : all_reduce(b, y));
    const std::uint32_t two = rank.post(first ? all_reduce(b, y) : all_reduce(a, x));
    EXPECT_TRUE(rank.wait(one).ok());
    EXPECT_TRUE(rank.wait(two).ok());
    return std::vector{x.values[0], y.values[0]};
  });
  for (const auto& result : results) EXPECT_THAT(result, ElementsAre(2, 4));
}

TEST_P(OperationsTest, MessagesAreMatchedByTagOrFromAnySource) {
  run(3, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 0) {
      const Floats two = rank.floats({0});
      const Floats one = rank.floats({0});
      const Answer second = rank.call(recv_from(group, two, 1, 7));
      const Answer first = rank.call(recv_from(group, one, 1, 5));
      EXPECT_EQ(second.peer, 1);
      EXPECT_TRUE(first.ok());
      const Floats any = rank.floats({0});
      PostRequest open = recv_from(group, any, -1, 9);
      open.flags = static_cast<std::uint8_t>(PostFlag::kAnySource);
      const Answer from = rank.call(open);
      EXPECT_EQ(from.peer, 2);
      return std::vector{two.values[0], one.values[0], any.values[0]};
    }
    if (rank.rank() == 1) {
      const std::uint32_t one = rank.post(send_to(group, rank.floats({1}), 0, 5));
      const std::uint32_t two = rank.post(send_to(group, rank.floats({2}), 0, 7));
      EXPECT_TRUE(rank.wait(two).ok());
      EXPECT_TRUE(rank.wait(one).ok());
    } else {
      EXPECT_TRUE(rank.call(send_to(group, rank.floats({3}), 0, 9)).ok());
    }
    return std::vector<float>{};
  });
  EXPECT_THAT(results[0], ElementsAre(2, 1, 3));
}

TEST_P(OperationsTest, SubGroupsConcernTheirMembersOnlyAndCanBeOpenedAgain) {
  run(4, [](RankClient& rank) {
    rank.join();
    const bool even = rank.rank() % 2 == 0;
    std::vector<float> sums;
    for (int opening = 0; opening < 2; ++opening) {
      const std::int32_t group =
          RankClient::handle(even ? rank.open("evens", {2, 0}) : rank.open("odds", {1, 3}));
      const Floats data = rank.floats({static_cast<float>(rank.rank() + 1)});
      // Group rank 0 of the evens is rank 2.
      EXPECT_TRUE(rank.call(broadcast(group, data, 0)).ok());
      sums.push_back(data.values[0]);
      rank.close(group);
    }
    return sums;
  });
  EXPECT_THAT(results[0], ElementsAre(3, 3));
  EXPECT_THAT(results[1], ElementsAre(2, 2));
  EXPECT_THAT(results[2], ElementsAre(3, 3));
  EXPECT_THAT(results[3], ElementsAre(2, 2));
}

TEST_P(OperationsTest, DifferentMemberListsAreAnErrorWithBothLists) {
  std::vector<Value> opened(2);
  const auto found = run(2, [&](RankClient& rank) {
    rank.join();
    opened[static_cast<std::size_t>(rank.rank())] =
        rank.open("pair", rank.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0});
    return std::vector<float>{};
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
  // The schedule decides which of them is the second.
  const Value& refused = opened[0].status == ValueStatus::kOk ? opened[1] : opened[0];
  const Value& first = opened[0].status == ValueStatus::kOk ? opened[0] : opened[1];
  EXPECT_EQ(first.status, ValueStatus::kOk);
  EXPECT_EQ(refused.status, ValueStatus::kContract);
  EXPECT_THAT(refused.bytes, HasSubstr("ranks 1, 0"));
  EXPECT_THAT(refused.bytes, HasSubstr("ranks 0, 1"));
}

TEST_P(OperationsTest, BrokenContractsComeWithTheWait) {
  const auto found = run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const auto text_of = [&](const PostRequest& request) {
      const Answer answer = rank.wait(rank.post(request));
      EXPECT_TRUE(answer.is(CallProblem::kContract));
      return answer.text;
    };
    EXPECT_THAT(text_of(broadcast(group, rank.floats({1}), 5)), HasSubstr("root 5 of broadcast"));
    PostRequest outside = all_reduce(group, rank.floats({1}));
    outside.inputs = outside.outputs = {{kArenaBytes - 4, 2}};
    EXPECT_THAT(text_of(outside), HasSubstr("do not lie in an arena"));
    outside.inputs = outside.outputs = {{2, 1}};
    EXPECT_THAT(text_of(outside), HasSubstr("at a multiple of their size"));
    outside.inputs = outside.outputs = {{0, -1}};
    EXPECT_THAT(text_of(outside), HasSubstr("-1 elements"));
    outside.inputs = outside.outputs = {{0, std::int64_t{1} << 62U}};
    EXPECT_THAT(text_of(outside), HasSubstr("do not lie in an arena"));
    EXPECT_THAT(text_of(all_reduce(17, rank.floats({1}))), HasSubstr("no open group"));
    PostRequest bits = all_reduce(group, rank.floats({1}), ReduceOp::kBand);
    EXPECT_THAT(text_of(bits), HasSubstr("non-integral"));
    return std::vector<float>{};
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
}

TEST_P(OperationsTest, WorksAreAskedForAndForgotten) {
  const auto found = run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const Floats data = rank.floats({1});
    const Floats more = rank.floats({1});
    const std::uint32_t ticket = rank.post(all_reduce(group, data));
    rank.forget(rank.post(all_reduce(group, more)));
    while (!rank.test(ticket)) continue;
    EXPECT_TRUE(rank.wait(ticket).ok());
    EXPECT_TRUE(rank.wait(ticket).is(CallProblem::kContract));
    EXPECT_TRUE(rank.call(barrier(group)).ok());
    return std::vector{data.values[0], more.values[0]};
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
  for (const auto& result : results) EXPECT_THAT(result, ElementsAre(2, 2));
}

TEST_P(OperationsTest, SleepIsVirtual) {
  const auto found = run(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 0) {
      EXPECT_EQ(rank.sleep(kHour).now.ns, kHour);
    }
    EXPECT_EQ(rank.call(barrier(group)).now.ns, kHour);
    return std::vector<float>{};
  });
  EXPECT_EQ(found.time.ns, kHour);
}

}  // namespace
}  // namespace lockstep::sim
