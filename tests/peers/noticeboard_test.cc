// What processes that share a folder learn of one another.
#include "lockstep/peers/noticeboard.h"

#include <csignal>
#include <numeric>

#include "lockstep/peers/rendezvous.h"

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep::peers {
namespace {

using std::chrono::milliseconds;
using testing::run_processes;
using testing::TempFolder;

Membership member_of(const std::string& folder, std::int32_t rank, std::int32_t size) {
  Membership member;
  member.rank = rank;
  member.size = size;
  member.folder = folder;
  member.name = "world";
  member.world_ranks.resize(static_cast<std::size_t>(size));
  std::iota(member.world_ranks.begin(), member.world_ranks.end(), 0);
  return member;
}

Bytes one_byte(std::int32_t value) { return {static_cast<std::byte>(value)}; }

/// Signs in and hands over this process's place.
void as_member(const TempFolder& folder,
               int rank,
               int size,
               const std::function<void(Watch&, const Membership&)>& program) {
  const Result<std::string> session = sign_in(folder.path(), rank, size, milliseconds(20'000));
  ASSERT_TRUE(session.ok()) << session.error().text();
  const Membership member = member_of(session.value(), rank, size);
  Watch watch(member);
  program(watch, member);
}

TEST(NoticeboardTest, EveryRankGetsTheValuesOfAllInEveryRound) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(4, [&](int rank) {
    as_member(folder, rank, 4, [&](Watch& watch, const Membership& member) {
      for (int round = 0; round < 50; ++round) {
        const RollCall roll =
            call_roll(watch, member, round, one_byte(10 * rank + round), milliseconds(20'000));
        ASSERT_EQ(roll.ending.status, CommStatus::kOk) << roll.ending.detail;
        for (int r = 0; r < 4; ++r) {
          EXPECT_EQ(roll.all[static_cast<std::size_t>(r)], one_byte(10 * r + round).front());
        }
      }
      watch.sign_out();
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0, 0}));
}

TEST(NoticeboardTest, AKilledProcessIsNamedLongBeforeTheDeadline) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(3, [&](int rank) {
    as_member(folder, rank, 3, [&](Watch& watch, const Membership& member) {
      const milliseconds patience(20'000);
      ASSERT_EQ(call_roll(watch, member, 0, one_byte(0), patience).ending.status, CommStatus::kOk);
      if (rank == 2) (void)std::raise(SIGKILL);
      const RollCall roll = call_roll(watch, member, 1, one_byte(0), patience);
      EXPECT_EQ(roll.ending.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.ending.detail.find("rank 2 is gone (process "), 0U) << roll.ending.detail;
      watch.sign_out();
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, -SIGKILL}));
}

// Who came and left is no loss; who left without coming is.
TEST(NoticeboardTest, LeavingAfterTheLastRoundHarmsNobody) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    as_member(folder, rank, 2, [&](Watch& watch, const Membership& member) {
      const milliseconds patience(20'000);
      EXPECT_EQ(call_roll(watch, member, 0, one_byte(0), patience).ending.status, CommStatus::kOk);
      if (rank == 1) return watch.sign_out();
      // Its process ends; long enough that it would be noticed.
      while (!watch.has_left(1)) {
      }
      for (int i = 0; i < 200; ++i) EXPECT_EQ(watch.trouble().status, CommStatus::kOk);
      const RollCall roll = call_roll(watch, member, 1, one_byte(0), patience);
      EXPECT_EQ(roll.ending.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.ending.detail, "rank 1 has left the group");
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(NoticeboardTest, WhoGivesUpTellsTheOthers) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    as_member(folder, rank, 2, [&](Watch& watch, const Membership& member) {
      if (rank == 1) return watch.give_up("its GPU is on fire");
      const RollCall roll = call_roll(watch, member, 0, one_byte(0), milliseconds(20'000));
      EXPECT_EQ(roll.ending.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.ending.detail, "rank 1 gave up: its GPU is on fire");
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(NoticeboardTest, OneOfSeveralTakesANoticeDown) {
  const TempFolder folder;
  const Noticeboard board(folder.path(), "group", 0);
  EXPECT_FALSE(board.read("offer").has_value());
  ASSERT_TRUE(board.pin("offer", bytes_of(std::string("words"))).ok());
  EXPECT_EQ(board.read("offer")->size(), 5U);
  EXPECT_TRUE(board.take_down("offer"));
  EXPECT_FALSE(board.take_down("offer"));
  EXPECT_FALSE(Noticeboard("/proc/nothing", "group", 0).pin("offer", {}).ok());
}

TEST(NoticeboardTest, RanksAreListedAsPeopleListThem) {
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{2}), "rank 2");
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{0, 2}), "ranks 0 and 2");
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{0, 2, 3}), "ranks 0, 2 and 3");
}

}  // namespace
}  // namespace lockstep::peers
