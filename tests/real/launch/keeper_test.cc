// What is left of a process that had a keeper and died.
#include "lockstep/real/launch/keeper.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

bool happens(const std::function<bool()>& what) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// A process that makes a folder with something in it below `parent`, and dies by SIGKILL.
void die_with_a_folder(const std::string& parent, bool kept) {
  const std::vector<int> statuses = testing::run_processes(1, [&](int) {
    const auto keeper = Keeper::start();
    ASSERT_TRUE(keeper.ok());
    std::string path = parent + "/own";
    if (kept) {
      const Result<std::string> made = keeper.value()->make_folder(parent + "/kept-");
      ASSERT_TRUE(made.ok());
      path = made.value();
    }
    fs::create_directories(path + "/below");
    std::ofstream(path + "/below/file") << "text";
    std::raise(SIGKILL);
  });
  ASSERT_EQ(statuses, std::vector<int>{-SIGKILL});
}

TEST(KeeperTest, AFolderThatItMadeGoesWhenTheProcessIsKilled) {
  const testing::TempFolder parent;
  die_with_a_folder(parent.path(), true);
  EXPECT_TRUE(happens([&] { return fs::is_empty(parent.path()); }));
}

TEST(KeeperTest, AFolderThatAnotherProcessMadeStays) {
  const testing::TempFolder parent;
  die_with_a_folder(parent.path(), false);
  die_with_a_folder(parent.path(), true);
  EXPECT_TRUE(happens([&] {
    return std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()) == 1;
  }));
  EXPECT_TRUE(fs::exists(parent.path() + "/own/below/file"));
}

TEST(KeeperTest, AGroupThatWasAnnouncedEndsAndOneThatWasForgottenDoesNot) {
  std::array<pid_t, 2> members = {-1, -1};
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const std::vector<int> statuses = testing::run_processes(1, [&](int) {
    const auto keeper = Keeper::start();
    ASSERT_TRUE(keeper.ok());
    for (pid_t& member : members) {
      member = ::fork();
      if (member == 0) {
        ::setpgid(0, 0);
        Keeper::announce(keeper.value()->handle());
        ::close(keeper.value()->handle());
        ASSERT_EQ(::write(ready[1], "x", 1), 1);
        for (;;) ::pause();
      }
      char byte = 0;
      ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    }
    keeper.value()->forget(members[1]);
    ASSERT_EQ(::write(ready[1], members.data(), sizeof members), sizeof members);
    std::raise(SIGKILL);
  });
  ASSERT_EQ(statuses, std::vector<int>{-SIGKILL});
  ASSERT_EQ(::read(ready[0], members.data(), sizeof members), sizeof members);
  for (const int end : ready) ::close(end);

  const auto is_there = [](pid_t pid) { return ::kill(pid, 0) == 0; };
  EXPECT_TRUE(happens([&] { return !is_there(members[0]); }));
  EXPECT_TRUE(is_there(members[1]));
  ::kill(members[1], SIGKILL);
}

TEST(KeeperTest, AKeptFolderGoesWithItsOwner) {
  const testing::TempFolder parent;
  const auto keeper = Keeper::start();
  ASSERT_TRUE(keeper.ok());
  {
    const auto folder = KeptFolder::make(*keeper.value(), parent.path() + "/kept-");
    ASSERT_TRUE(folder.ok());
    EXPECT_TRUE(fs::is_directory(folder.value()->path()));
    EXPECT_TRUE(folder.value()->path().starts_with(parent.path() + "/kept-"));
  }
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(KeeperTest, AFolderThatCannotBeMadeIsASentence) {
  const auto keeper = Keeper::start();
  ASSERT_TRUE(keeper.ok());
  const std::string nowhere = "/nowhere/at/all/x-";
  EXPECT_EQ(keeper.value()->make_folder(nowhere).error().text(),
            nowhere + ": cannot make a temporary folder: No such file or directory");
  EXPECT_EQ(keeper.value()->make_folder("/" + std::string(5000, 'x')).error().message,
            "cannot make a temporary folder: File name too long");
}

// It is an ordinary process, which may be killed: that must not end the launcher.
TEST(KeeperTest, WithoutItsKeeperAProcessGoesOn) {
  const testing::TempFolder parent;
  const std::vector<int> statuses = testing::run_processes(1, [&](int) {
    const auto keeper = Keeper::start();
    ASSERT_TRUE(keeper.ok());
    const std::string children = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
    pid_t pid = 0;
    ASSERT_TRUE(std::ifstream(children) >> pid);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    keeper.value()->forget(12345);
    EXPECT_FALSE(keeper.value()->make_folder(parent.path() + "/x-").ok());
    keeper.value()->forget(12345);
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

}  // namespace
}  // namespace lockstep::launch
