// Processes that meet again and again in one folder: each meeting is another, and nothing is left.
#include "lockstep/real/group/meeting_place.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep::peers {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::run_processes;
using testing::TempFolder;

constexpr milliseconds kPatience{20'000};

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// Each process in its own rank, all of which must end well.
void play(int n_ranks, const std::function<void(int)>& program) {
  EXPECT_THAT(run_processes(n_ranks, program), ::testing::Each(0));
}

void wait_for(const std::string& path) {
  while (!fs::exists(path)) std::this_thread::sleep_for(milliseconds(1));
}

/// Ranks write their number into the meeting and wait for the others', as if they connected.
void meet_once(const std::string& point, int rank, int size, const std::string& say) {
  const auto place = MeetingPlace::join(point, rank, size, kPatience);
  ASSERT_TRUE(place.ok()) << place.error().text();
  const std::string folder = place.value()->folder();
  std::ofstream(folder + "/is-here-" + std::to_string(rank)) << say << std::flush;
  for (int other = 0; other < size; ++other) {
    const std::string path = folder + "/is-here-" + std::to_string(other);
    wait_for(path);
    std::string said;
    while (said.empty()) std::ifstream(path) >> said;
    ASSERT_EQ(said, say) << "rank " << other << " is in another meeting";
  }
  place.value()->close_doors();
  // No rank comes to the next meeting before the doors of this one are closed.
  std::ofstream(folder + "/is-done-" + std::to_string(rank)) << std::flush;
  for (int other = 0; other < size; ++other) wait_for(folder + "/is-done-" + std::to_string(other));
}

TEST(MeetingPlaceTest, ProcessesMeetAgainAndAgainAndLeaveNothing) {
  const TempFolder folder;
  const std::string point = folder.path() + "/deep/point";
  play(3, [&](int rank) {
    for (int meeting = 0; meeting < 40; ++meeting) {
      meet_once(point, rank, 3, std::to_string(meeting));
    }
  });
  EXPECT_THAT(names_in(folder.path() + "/deep"), ::testing::IsEmpty());
}

// Removes the empty point again and again, as ranks of the meeting before do once, so at the worst moment sooner or
// later. Returns the errors of `n_meetings` meetings on each of `n_threads` threads.
std::vector<std::string> errors_of_meetings(int n_threads, int n_meetings) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  std::atomic<bool> is_over = false;
  std::thread remover([&] {
    while (!is_over) ::rmdir(point.c_str());
  });
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<std::thread> leaders;
  for (int i = 0; i < n_threads; ++i) {
    leaders.emplace_back([&] {
      for (int meeting = 0; meeting < n_meetings; ++meeting) {
        const auto place = MeetingPlace::join(point, 0, 1, kPatience);
        const std::lock_guard lock(mutex);
        if (!place.ok()) errors.push_back(place.error().text());
      }
    });
  }
  for (std::thread& leader : leaders) leader.join();
  is_over = true;
  remover.join();
  return errors;
}

TEST(MeetingPlaceTest, AMeetingBeginsWhileTheEmptyPointIsRemovedAgainAndAgain) {
  EXPECT_THAT(errors_of_meetings(1, 200), ::testing::IsEmpty());
}

TEST(MeetingPlaceTest, ConcurrentMeetingsThatShareAPointAllSucceed) {
  EXPECT_THAT(errors_of_meetings(3, 200), ::testing::IsEmpty());
}

TEST(MeetingPlaceTest, ALinkThatLeadsNowhereIsAnErrorLongBeforeTheDeadline) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  std::filesystem::create_symlink(folder.path() + "/nowhere", point);
  const auto place = MeetingPlace::join(point, 0, 1, std::chrono::hours(1));
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.error().text(), point + ": cannot make this folder: File exists");
}

// Linux makes no folder in /proc, and says that there is none.
TEST(MeetingPlaceTest, APlaceInWhichNoFolderCanBeMadeIsAnErrorAtTheDeadline) {
  const auto place = MeetingPlace::join("/proc/lockstep", 0, 1, milliseconds(50));
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.error().text(),
            "/proc/lockstep: cannot make this folder: No such file or directory");
}

TEST(MeetingPlaceTest, ADeadProcessDoesNotKeepTheFolder) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  play(2, [&](int rank) {
    const auto place = MeetingPlace::join(point, rank, 2, kPatience);
    ASSERT_TRUE(place.ok()) << place.error().text();
    const std::string entry = place.value()->folder() + "/rank-1";
    wait_for(entry);
    if (rank == 1) _exit(0);  // Without leaving.
    while (fs::file_size(entry) == 0) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(300));
  });
  EXPECT_FALSE(fs::exists(point));
}

TEST(MeetingPlaceTest, TheNextRunRemovesTheFoldersOfKilledOnes) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  play(2, [&](int rank) {
    const auto place = MeetingPlace::join(point, rank, 2, kPatience);
    ASSERT_TRUE(place.ok()) << place.error().text();
    wait_for(place.value()->folder() + "/rank-" + std::to_string(1 - rank));
    _exit(0);
  });
  EXPECT_TRUE(fs::exists(point));
  play(2, [&](int rank) { meet_once(point, rank, 2, "again"); });
  EXPECT_FALSE(fs::exists(point));
}

// A folder of another program's, and a run that is still on its way in.
TEST(MeetingPlaceTest, ForeignFilesAndUnfinishedMeetingsStay) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  fs::create_directories(point + "/session-of-one-who-is-not-in-yet");
  std::ofstream(point + "/letter") << "mine";
  play(2, [&](int rank) { meet_once(point, rank, 2, "x"); });
  EXPECT_EQ(names_in(point), (std::set<std::string>{"letter", "session-of-one-who-is-not-in-yet"}));
}

TEST(MeetingPlaceTest, ALateProcessFindsNoMeetingThatHasClosed) {
  const TempFolder folder;
  const std::string point = folder.path() + "/point";
  const auto first = MeetingPlace::join(point, 0, 1, kPatience);
  ASSERT_TRUE(first.ok());
  first.value()->close_doors();
  const auto late = MeetingPlace::join(point, 1, 2, milliseconds(50));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().message, "rank 0 did not arrive within 50 ms");
}

}  // namespace
}  // namespace lockstep::peers
