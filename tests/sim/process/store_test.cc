// The store of a job, as c10d's answers.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

TEST(ProcessStoreTest, AnswersAsTcpStoreDoes) {
  const Coordination found = coordinate_threads(1, [](RankClient& rank) {
    rank.start();
    rank.store({.op = StoreOp::kSet, .key = "k", .value = "v"});
    EXPECT_EQ(rank.store({.op = StoreOp::kGet, .key = "k"}).bytes, "v");
    rank.store({.op = StoreOp::kAppend, .key = "k", .value = "w"});
    EXPECT_EQ(rank.store({.op = StoreOp::kGet, .key = "k"}).bytes, "vw");
    EXPECT_EQ(rank.store({.op = StoreOp::kAdd, .key = "n", .value = "5"}).number(), 5);
    EXPECT_EQ(rank.store({.op = StoreOp::kAdd, .key = "n", .value = "-2"}).number(), 3);
    EXPECT_EQ(rank.store({.op = StoreOp::kGet, .key = "n"}).bytes, "3");
    const Value wrong = rank.store({.op = StoreOp::kAdd, .key = "k", .value = "1"});
    EXPECT_EQ(wrong.status, ValueStatus::kContract);
    EXPECT_THAT(wrong.bytes, HasSubstr("'vw' is not a number"));
    const auto compare_set = [&](const char* key, const char* expected, const char* desired) {
      return rank
          .store({.op = StoreOp::kCompareSet, .key = key, .value = desired, .expected = expected})
          .bytes;
    };
    EXPECT_EQ(compare_set("c", "other", "x"), "other") << "missing, and something was expected";
    EXPECT_EQ(compare_set("c", "", "x"), "x");
    EXPECT_EQ(compare_set("c", "y", "z"), "x");
    EXPECT_EQ(compare_set("c", "x", "z"), "z");
    const auto flag = [&](StoreOp op, const std::string& key) {
      return rank.store({.op = op, .key = key}).bytes == std::string(1, '\1');
    };
    EXPECT_TRUE(flag(StoreOp::kCheck, std::string("k\0n", 3)));
    EXPECT_FALSE(flag(StoreOp::kCheck, std::string("k\0m", 3)));
    EXPECT_EQ(rank.store({.op = StoreOp::kNumKeys}).number(), 3);
    EXPECT_TRUE(flag(StoreOp::kDelete, "k"));
    EXPECT_FALSE(flag(StoreOp::kDelete, "k"));
    EXPECT_EQ(rank.store({.op = StoreOp::kNumKeys}).number(), 2);
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
  EXPECT_EQ(found.store, (StoreTable::Contents{{"c", "z"}, {"n", "3"}}));
}

TEST(ProcessStoreTest, AGetWaitsForItsKeyAndOutlivesTheRun) {
  CoordinatorOptions options;
  options.store = {{"from the attempt before", "1"}};
  const Coordination found = coordinate_threads(2, options, [](RankClient& rank) {
    rank.start();
    EXPECT_EQ(rank.store({.op = StoreOp::kGet, .key = "from the attempt before"}).bytes, "1");
    if (rank.rank() == 0) {
      const Value got = rank.store({.op = StoreOp::kGet, .key = "address"});
      EXPECT_EQ(got.bytes, "here");
      EXPECT_EQ(got.now.ns, 500);
    } else {
      rank.sleep(500);
      rank.store({.op = StoreOp::kSet, .key = "address", .value = "here"});
    }
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
}

TEST(ProcessStoreTest, AWaitEndsWithItsTimeoutWhereThatPasses) {
  for (const bool expires : {true, false}) {
    const Coordination found = coordinate_threads(1, [expires](RankClient& rank) {
      rank.start();
      const Value late =
          rank.store({.op = StoreOp::kWait, .timeout_ns = 7'000'000, .key = "never"}, expires);
      EXPECT_EQ(late.status, ValueStatus::kTimedOut);
      EXPECT_EQ(late.now.ns, 7'000'000);
      EXPECT_EQ(late.bytes, "wait timeout after 7ms, keys: 'never'");
    });
    EXPECT_EQ(found.outcome, expires ? CoordinationOutcome::kOk : CoordinationOutcome::kDeadlock);
  }
}

TEST(ProcessStoreTest, LongValuesTravelInSeveralPackets) {
  const std::string book(3 * kMaxPacket + 17, 'b');
  coordinate_threads(2, [&](RankClient& rank) {
    rank.start();
    if (rank.rank() == 0) rank.store({.op = StoreOp::kSet, .key = "book", .value = book});
    EXPECT_EQ(rank.store({.op = StoreOp::kGet, .key = "book"}).bytes, book);
  });
}

}  // namespace
}  // namespace lockstep::sim
