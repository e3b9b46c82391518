// What processes that share a folder learn of one another.
#include "lockstep/real/group/file_store.h"

#include <csignal>
#include <numeric>

#include "lockstep/real/group/rendezvous.h"

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
               const std::function<void(PeerMonitor&, const Membership&)>& program) {
  const Result<std::string> session = join_session(folder.path(), rank, size, milliseconds(20'000));
  ASSERT_TRUE(session.ok()) << session.error().text();
  const Membership member = member_of(session.value(), rank, size);
  PeerMonitor monitor(member);
  program(monitor, member);
}

TEST(FileStoreTest, EveryRankGetsTheValuesOfAllInEveryRound) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(4, [&](int rank) {
    as_member(folder, rank, 4, [&](PeerMonitor& monitor, const Membership& member) {
      for (int round = 0; round < 50; ++round) {
        const GatheredBytes roll = all_gather_bytes(
            monitor, member, round, one_byte(10 * rank + round), milliseconds(20'000));
        ASSERT_EQ(roll.completion.status, CommStatus::kOk) << roll.completion.detail;
        for (int r = 0; r < 4; ++r) {
          EXPECT_EQ(roll.all[static_cast<std::size_t>(r)], one_byte(10 * r + round).front());
        }
      }
      monitor.announce_leaving();
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0, 0}));
}

TEST(FileStoreTest, AKilledProcessIsNamedLongBeforeTheDeadline) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(3, [&](int rank) {
    as_member(folder, rank, 3, [&](PeerMonitor& monitor, const Membership& member) {
      const milliseconds backoff(20'000);
      ASSERT_EQ(all_gather_bytes(monitor, member, 0, one_byte(0), backoff).completion.status,
                CommStatus::kOk);
      if (rank == 2) (void)std::raise(SIGKILL);
      const GatheredBytes roll = all_gather_bytes(monitor, member, 1, one_byte(0), backoff);
      EXPECT_EQ(roll.completion.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.completion.detail.find("rank 2 is gone (process "), 0U)
          << roll.completion.detail;
      monitor.announce_leaving();
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, -SIGKILL}));
}

// A rank that came and left is not lost; one that left without coming is.
TEST(FileStoreTest, LeavingAfterTheLastRoundIsHarmless) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    as_member(folder, rank, 2, [&](PeerMonitor& monitor, const Membership& member) {
      const milliseconds backoff(20'000);
      EXPECT_EQ(all_gather_bytes(monitor, member, 0, one_byte(0), backoff).completion.status,
                CommStatus::kOk);
      if (rank == 1) return monitor.announce_leaving();
      // Its process ends; long enough that it would be noticed.
      while (!monitor.has_left(1)) {
      }
      for (int i = 0; i < 200; ++i) EXPECT_EQ(monitor.failure().status, CommStatus::kOk);
      const GatheredBytes roll = all_gather_bytes(monitor, member, 1, one_byte(0), backoff);
      EXPECT_EQ(roll.completion.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.completion.detail, "rank 1 has left the group");
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(FileStoreTest, ARankThatFailsNotifiesTheOthers) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    as_member(folder, rank, 2, [&](PeerMonitor& monitor, const Membership& member) {
      if (rank == 1) return monitor.report_failure("its GPU is on fire");
      const GatheredBytes roll =
          all_gather_bytes(monitor, member, 0, one_byte(0), milliseconds(20'000));
      EXPECT_EQ(roll.completion.status, CommStatus::kPeerLost);
      EXPECT_EQ(roll.completion.detail, "rank 1 gave up: its GPU is on fire");
    });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(FileStoreTest, AKeyIsRemovedOnce) {
  const TempFolder folder;
  const FileStore store(folder.path(), "group", 0);
  EXPECT_FALSE(store.read("offer").has_value());
  ASSERT_TRUE(store.set("offer", bytes_of(std::string("words"))).ok());
  EXPECT_EQ(store.read("offer")->size(), 5U);
  EXPECT_TRUE(store.remove("offer"));
  EXPECT_FALSE(store.remove("offer"));
  EXPECT_FALSE(FileStore("/proc/nothing", "group", 0).set("offer", {}).ok());
}

TEST(FileStoreTest, RanksAreListedAsPeopleListThem) {
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{2}), "rank 2");
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{0, 2}), "ranks 0 and 2");
  EXPECT_EQ(listed_ranks(std::vector<std::int32_t>{0, 2, 3}), "ranks 0, 2 and 3");
}

}  // namespace
}  // namespace lockstep::peers
