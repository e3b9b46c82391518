// What programs must not do with ranks and simulators: each mistake is named, none is a signal
// without a word.
#include <lockstep/lockstep.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// A result that holds a rank's memory does not compile; numbers do.
static_assert(detail::HoldsTensors<Tensor>::value);
static_assert(detail::HoldsTensors<Variable>::value);
static_assert(detail::HoldsTensors<std::vector<Tensor>>::value);
static_assert(detail::HoldsTensors<std::optional<Variable>>::value);
static_assert(detail::HoldsTensors<std::array<Tensor, 2>>::value);
static_assert(detail::HoldsTensors<std::map<std::string, std::vector<Tensor>>>::value);
static_assert(detail::HoldsTensors<std::unique_ptr<nn::Linear>>::value);
static_assert(!detail::HoldsTensors<double>::value);
static_assert(!detail::HoldsTensors<std::vector<double>>::value);
static_assert(!detail::HoldsTensors<std::string>::value);

/// What the ContractViolation says that `act` ends with.
template <typename Act>
std::string violation_of(Act act) {
  try {
    act();
  } catch (const ContractViolation& violation) {
    return violation.what();
  }
  return "nothing";
}

TEST(MisuseTest, ASimulatorIsNotUsedInsideItsOwnRanks) {
  Simulator simulator;
  const auto nested = [&](RankContext& rank) {
    if (rank.rank() == 0) simulator.run({.ranks = 2}, [](RankContext&) {});
  };
  EXPECT_NE(violation_of([&] { simulator.run({.ranks = 2}, nested); }).find("inside a rank"),
            std::string::npos);
  // And it is as good as new afterwards.
  EXPECT_TRUE(simulator.run({.ranks = 2}, [](RankContext&) {}).ok());
}

TEST(MisuseTest, ASimulatorServesOneThreadAtATime) {
  Simulator simulator;
  std::string what;
  simulator.run({.ranks = 1}, [&](RankContext&) {
    std::thread([&] {
      what = violation_of([&] { simulator.run({.ranks = 1}, [](RankContext&) {}); });
    }).join();
  });
  EXPECT_NE(what.find("is already running on another thread"), std::string::npos) << what;
}

TEST(MisuseTest, ARankDoesNotReduceTheTensorOfAnother) {
  std::string what;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    static const Tensor* of_rank_0 = nullptr;
    const Tensor own = Tensor::full(rank.runtime(), {2}, DType::kF32, 1.0);
    if (rank.rank() == 0) of_rank_0 = &own;
    EXPECT_EQ(rank.world().barrier().wait(), CommStatus::kOk);
    if (rank.rank() == 1) {
      what = violation_of([&] { (void)rank.world().all_reduce(Memory::of(*of_rank_0)).wait(); });
    }
    EXPECT_EQ(rank.world().barrier().wait(), CommStatus::kOk);
  });
  EXPECT_NE(what.find("all_reduce on rank 1 was given another rank's tensor"), std::string::npos)
      << what;
}

TEST(MisuseTest, AModuleIsNotSharedBetweenRanks) {
  std::string what;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    static nn::Linear* of_rank_0 = nullptr;
    Generator seed(0);
    nn::Linear own(rank.runtime(), 2, 1, seed);
    if (rank.rank() == 0) of_rank_0 = &own;
    EXPECT_EQ(rank.world().barrier().wait(), CommStatus::kOk);
    if (rank.rank() == 1) {
      what = violation_of([&] {
        (void)rank.world().broadcast(Memory::of(of_rank_0->parameters()[0].data()), 0).wait();
      });
    }
    EXPECT_EQ(rank.world().barrier().wait(), CommStatus::kOk);
  });
  EXPECT_NE(what.find("on rank 1 was given another rank's tensor"), std::string::npos) << what;
}

TEST(MisuseTest, AThreadOfARankCannotActForIt) {
  std::string what;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() != 1) return;
    std::thread([&] { what = violation_of([&] { rank.host().sleep(Duration{1}); }); }).join();
  });
  EXPECT_NE(what.find("rank 1 is used on a thread or stack other than its own"), std::string::npos)
      << what;
}

/// Frames of more than half a kilobyte; returns something that needs all of them.
[[gnu::noinline]] int frames(int depth) {
  volatile char frame[560];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : frames(depth - 1) + frame[0];
}

void recurse_in_rank_1(std::size_t stack_bytes) {
  run_ranks({.ranks = 3, .stack_bytes = stack_bytes}, [](RankContext& rank) {
    volatile const int used = rank.rank() == 1 ? frames(150) : 0;
    static_cast<void>(used);
  });
}

// A process with a handler of its own for SIGSEGV keeps it, and sanitizers have one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kUsedUp = "Sanitizer: stack-overflow on address";
#else
constexpr const char* kUsedUp =
    "rank 1 overflowed its stack of 65536 bytes: .*raise RunOptions::stack_bytes";
#endif

TEST(MisuseDeathTest, ARankThatRunsOutOfStackIsNamedWithTheOption) {
  EXPECT_EXIT(recurse_in_rank_1(0), ::testing::ExitedWithCode(1), kUsedUp);
  recurse_in_rank_1(std::size_t{1} << 20U);
}

}  // namespace
}  // namespace lockstep
