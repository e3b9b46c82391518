// What can go wrong between processes, and what each survivor reports.
#include "lockstep/real/gloo/gloo_group.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <iterator>
#include <string>
#include <thread>

#include "lockstep/real/gloo/detail/connection.h"

#include "tests/support/gloo_ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::run_gloo_ranks;
using testing::run_processes;
using testing::TempFolder;
using testing::TestRuntime;

Tensor ones(ProcessGroup& group, std::int64_t n) {
  const std::vector<double> values(static_cast<std::size_t>(n), 1.0);
  return Tensor::of(group.runtime(), {n}, DType::kF32, values);
}

std::string words_of(const Work& work) {
  try {
    work.wait_or_throw();
  } catch (const CommError& error) {
    return error.what();
  }
  return {};
}

TEST(GlooGroupTest, ADifferentCountIsNamedOnEveryRankWithBothSites) {
  run_gloo_ranks(3, [](ProcessGroup& group) {
    const std::int64_t n = group.rank() == 1 ? 5 : 4;
    const Tensor data = ones(group, n);
    const Work work = group.all_reduce(Memory::of(data));
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
    const std::string words = words_of(work);
    EXPECT_NE(words.find("count differs: rank 0 4 ("), std::string::npos) << words;
    EXPECT_NE(words.find("rank 1 5 ("), std::string::npos) << words;
    EXPECT_NE(words.find("gloo_group_test.cc"), std::string::npos) << words;
  });
}

TEST(GlooGroupTest, AGroupStaysUsableAfterAMismatch) {
  run_gloo_ranks(2, [](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    const Work wrong = group.rank() == 0 ? group.all_reduce(Memory::of(data)) : group.barrier();
    EXPECT_EQ(wrong.wait(), CommStatus::kMismatch);
    EXPECT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(3), 2.0);
  });
}

TEST(GlooGroupTest, ARankThatNeverComesIsATimeout) {
  run_gloo_ranks(
      2,
      [](ProcessGroup& group) {
        const Tensor data = ones(group, 4);
        if (group.rank() == 1) {
          // Alive and silent for longer than the others' patience.
          group.runtime().host().sleep({});
          std::this_thread::sleep_for(milliseconds(900));
          return;
        }
        const CommStatus status = group.all_reduce(Memory::of(data)).wait();
        EXPECT_EQ(status, CommStatus::kTimedOut);
        EXPECT_EQ(group.barrier().wait(), CommStatus::kPeerLost) << "connections are closed";
      },
      milliseconds(300));
}

// Rank 1 needs nothing of the others and leaves at once; rank 0 gets to its connections late.
TEST(GlooGroupTest, NoRankLeavesBeforeAllAreConnected) {
  constexpr int kRounds = 20;
  const TempFolder connected;
  for (int round = 0; round < kRounds; ++round) {
    run_gloo_ranks(3, [&](ProcessGroup& group) {
      EXPECT_EQ(group.size(), 3);
      std::ofstream(connected.path() + "/" + std::to_string(round * 3 + group.rank())) << "here";
    });
  }
  const std::filesystem::directory_iterator files(connected.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), kRounds * 3);
}

// Rank 0 connects to the others and then does not say that it has: it may still be connecting.
TEST(GlooGroupTest, NoRankContinuesBeforeAllSayThatTheyAreConnected) {
  const TempFolder folder;
  const std::string done = folder.path() + "/done-";
  const std::vector<int> statuses = run_processes(3, [&](int rank) {
    if (rank != 0) {
      const auto connection = gloo::open_connection({.rank = rank,
                                                     .size = 3,
                                                     .folder = folder.path(),
                                                     .name = "world",
                                                     .timeout = milliseconds(500),
                                                     .world_ranks = {0, 1, 2}},
                                                    "localhost");
      std::ofstream(done + std::to_string(rank)) << "done";
      EXPECT_FALSE(connection.ok());
      return;
    }
    ::gloo::transport::tcp::attr address;
    address.hostname = "localhost";
    std::shared_ptr<::gloo::transport::Device> device =
        ::gloo::transport::tcp::CreateDevice(address);
    ::gloo::rendezvous::Context context(0, 3);
    ::gloo::rendezvous::FileStore files(folder.path());
    ::gloo::rendezvous::PrefixStore store("world", files);
    context.connectFullMesh(store, device);
    for (const char* const other : {"1", "2"}) {
      while (!std::filesystem::exists(done + other)) std::this_thread::yield();
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0}));
}

TEST(GlooGroupTest, AKilledPeerIsLostToEverySurvivor) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(4, [&](int rank) {
    testing::with_gloo_group(
        {.rank = rank, .size = 4, .rendezvous = folder.path(), .timeout = milliseconds(5000)},
        [](ProcessGroup& group) {
          const Tensor data = ones(group, 1000);
          ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
          if (group.rank() == 2) std::raise(SIGKILL);
          const CommStatus status = group.all_reduce(Memory::of(data)).wait();
          EXPECT_TRUE(status == CommStatus::kPeerLost || status == CommStatus::kTimedOut)
              << name_of(status);
        });
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, -SIGKILL, 0}));
}

TEST(GlooGroupTest, WorldsOfDifferentSizesDoNotConnect) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    TestRuntime runtime;
    const auto group = gloo::connect({.rank = rank,
                                      .size = rank == 0 ? 2 : 3,
                                      .rendezvous = folder.path(),
                                      .timeout = milliseconds(500)},
                                     runtime.runtime);
    ASSERT_FALSE(group.ok());
    if (rank == 1) {
      EXPECT_NE(group.error().message.find("rank 0 has a world of 2, rank 1 one of 3"),
                std::string::npos)
          << group.error().message;
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(GlooGroupTest, TwoProcessesWithOneNumberAreRefused) {
  const TempFolder folder;
  // Numbers 0, 1 and 1 again in a world of three: one of the two is refused, the others time out.
  const std::vector<int> statuses = run_processes(3, [&](int i) {
    TestRuntime runtime;
    const auto group = gloo::connect({.rank = i == 0 ? 0 : 1,
                                      .size = 3,
                                      .rendezvous = folder.path(),
                                      .timeout = milliseconds(500)},
                                     runtime.runtime);
    ASSERT_FALSE(group.ok());
    if (group.error().message == "two processes claim to be rank 1")
      throw std::runtime_error("refused");
  });
  EXPECT_EQ(std::count(statuses.begin(), statuses.end(), testing::kChildThrew), 1);
  EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 0), 2);
}

TEST(GlooGroupTest, FilesOfAnEarlierRunAreIgnored) {
  const TempFolder folder;
  // A process that has ended, as an earlier run leaves it.
  run_processes(1, [&](int) {
    TestRuntime runtime;
    (void)gloo::connect(
        {.rank = 0, .size = 2, .rendezvous = folder.path(), .timeout = milliseconds(10)},
        runtime.runtime);
  });
  ASSERT_TRUE(std::ifstream(folder.path() + "/leader").good());
  const std::vector<int> late = run_processes(1, [&](int) {
    TestRuntime runtime;
    const auto group = gloo::connect(
        {.rank = 1, .size = 2, .rendezvous = folder.path(), .timeout = milliseconds(200)},
        runtime.runtime);
    ASSERT_FALSE(group.ok());
    EXPECT_NE(group.error().message.find("stale rendezvous"), std::string::npos);
  });
  EXPECT_EQ(late, (std::vector<int>{0}));
  // The same folder serves a new world.
  const std::vector<int> fresh = run_processes(2, [&](int rank) {
    testing::with_gloo_group(
        {.rank = rank, .size = 2, .rendezvous = folder.path()},
        [](ProcessGroup& group) { EXPECT_EQ(group.barrier().wait(), CommStatus::kOk); });
  });
  EXPECT_EQ(fresh, (std::vector<int>{0, 0}));
}

TEST(GlooGroupTest, AFolderThatCannotBeMadeIsAnError) {
  TestRuntime runtime;
  const auto group = gloo::connect(
      {.rank = 0, .size = 1, .rendezvous = "/proc/nothing", .timeout = milliseconds(10)},
      runtime.runtime);
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().where, "/proc/nothing");
}

}  // namespace
}  // namespace lockstep
