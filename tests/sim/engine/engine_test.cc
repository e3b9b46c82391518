#include "lockstep/sim/engine/engine.h"

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::sim {
namespace {

TEST(EngineTest, RunsOnlyWhenResumed) {
  const auto engine = make_boost_fiber_engine({});
  std::string log;
  const Engine::Fiber fiber = engine->create([&](Engine::Fiber) {
    log += "b";
    engine->suspend();
    log += "d";
  });
  log += "a";
  engine->resume(fiber);
  log += "c";
  engine->resume(fiber);
  log += "e";
  EXPECT_EQ(log, "abcde");
  EXPECT_TRUE(engine->finished(fiber));
}

TEST(EngineTest, SwitchesFromFiberToFiberDirectly) {
  const auto engine = make_boost_fiber_engine({});
  std::string log;
  const Engine::Fiber second = engine->create([&](Engine::Fiber) { log += "2"; });
  const Engine::Fiber first = engine->create([&](Engine::Fiber) {
    log += "1";
    engine->resume(second);
    log += "3";
  });
  engine->resume(first);
  EXPECT_EQ(log, "12");
  EXPECT_FALSE(engine->finished(first));
  engine->resume(first);
  EXPECT_EQ(log, "123");
}

TEST(EngineTest, ReusesFinishedFibers) {
  const auto engine = make_boost_fiber_engine({});
  const Engine::Fiber first = engine->create([](Engine::Fiber) {});
  engine->resume(first);
  EXPECT_EQ(engine->create([](Engine::Fiber) {}), first);
}

TEST(EngineTest, ReusesTheStacksOfAbandonedFibers) {
  const auto engine = make_boost_fiber_engine({});
  const Engine::Fiber lost = engine->create([&](Engine::Fiber) { engine->suspend(); });
  engine->resume(lost);
  engine->destroy();
  bool ran = false;
  const Engine::Fiber next = engine->create([&](Engine::Fiber) { ran = true; });
  EXPECT_EQ(next, lost);
  engine->resume(next);
  EXPECT_TRUE(ran);
}

// Two fibers that are switched inside a catch block must each rethrow their own exception. Without
// the save and restore in the engine the first one rethrows "second": the runtime's stack of caught
// exceptions belongs to the thread.
TEST(EngineTest, KeepsTheExceptionStateOfEachFiber) {
  const auto engine = make_boost_fiber_engine({});
  std::vector<std::string> rethrown(2);
  const auto body = [&](std::size_t i, const char* text) {
    return [&, i, text](Engine::Fiber) {
      try {
        try {
          throw std::runtime_error(text);
        } catch (const std::runtime_error&) {
          engine->suspend();
          throw;
        }
      } catch (const std::runtime_error& error) {
        rethrown[i] = error.what();
      }
    };
  };
  const Engine::Fiber first = engine->create(body(0, "first"));
  const Engine::Fiber second = engine->create(body(1, "second"));
  engine->resume(first);
  engine->resume(second);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
  engine->resume(first);
  engine->resume(second);
  EXPECT_EQ(rethrown, (std::vector<std::string>{"first", "second"}));
}

TEST(EngineTest, KnowsWhetherItRunsOnAFiber) {
  const auto engine = make_boost_fiber_engine({});
  bool inside = false;
  engine->resume(engine->create([&](Engine::Fiber) { inside = inside_fiber(); }));
  EXPECT_TRUE(inside);
  EXPECT_FALSE(inside_fiber());
}

// Without recursion: an array of most of the stack, touched, then a switch.
TEST(EngineTest, ReportsAStackThatIsNearlyUsedUp) {
  const auto engine = make_boost_fiber_engine({.bytes = 64 * 1024, .n_guarded = 0});
  std::string what;
  engine->resume(engine->create([&](Engine::Fiber) {
    volatile char deep[56 * 1024];
    deep[0] = 1;
    try {
      engine->suspend();
    } catch (const ContractViolation& error) {
      what = error.what();
    }
    deep[1] = deep[0];
  }));
  EXPECT_NE(what.find("stack_bytes"), std::string::npos) << what;
}

/// Frames of more than half a kilobyte; returns their number, for which it needs all of them.
[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[560];
  frame[0] = 1;
  return depth == 0 ? frame[0] : recurse(depth - 1) + frame[0];
}

/// A fiber named rank 7 that recurses and then lets the others run. Returns how many frames it had.
int run_out_of_stack(const StackOptions& options) {
  const auto engine = make_boost_fiber_engine(options);
  int n_frames = 0;
  const Engine::Fiber other = engine->create([&](Engine::Fiber) { engine->suspend(); });
  const Engine::Fiber deep = engine->create([&](Engine::Fiber) {
    n_frames = recurse(150);
    engine->suspend();
  });
  engine->name(deep, 7);
  engine->resume(other);
  engine->resume(deep);
  return n_frames;
}

constexpr const char* kUsedUp =
    "rank 7 overflowed its stack of 65536 bytes: .*RunOptions::stack_bytes";
// A process with a handler of its own for SIGSEGV keeps it, and sanitizers have one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kFaulted = "Sanitizer: stack-overflow on address";
#else
constexpr const char* kFaulted = kUsedUp;
#endif

TEST(EngineDeathTest, ARankThatRunsOutOfStackIsNamed) {
  EXPECT_EXIT(run_out_of_stack({.bytes = 64 * 1024}), ::testing::ExitedWithCode(1), kFaulted);
}

// As the main thread of a Rust program has, and every thread under AddressSanitizer.
TEST(EngineDeathTest, AnAlternateStackOfTheThreadsOwnServesAsWell) {
  const auto act = [] {
    std::thread([] {
      std::vector<std::byte> memory(std::size_t{64} << 10U);
      const stack_t own{.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
      ASSERT_EQ(sigaltstack(&own, nullptr), 0);
      run_out_of_stack({.bytes = 64 * 1024});
    }).join();
  };
  EXPECT_EXIT(act(), ::testing::ExitedWithCode(1), kFaulted);
}

TEST(EngineDeathTest, WithoutGuardPagesTheOverrunIsFoundBeforeItsNeighbourRuns) {
  EXPECT_EXIT(run_out_of_stack({.bytes = 64 * 1024, .n_guarded = 0}),
              ::testing::ExitedWithCode(1),
              kUsedUp);
}

TEST(EngineDeathTest, ALargerStackHoldsARecursionThatOverrunsASmallOne) {
  EXPECT_EQ(run_out_of_stack({.bytes = 256 * 1024}), 151);
  EXPECT_EQ(run_out_of_stack({.bytes = 256 * 1024, .n_guarded = 0}), 151);
}

TEST(EngineDeathTest, ARankThatCallsExitIsAskedToReturn) {
  const auto leave = [] {
    const auto engine = make_boost_fiber_engine({});
    engine->resume(engine->create([](Engine::Fiber) { std::exit(7); }));
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(1), "a rank called exit");
}

TEST(EngineTest, AnotherThreadCannotActForAFiber) {
  const auto engine = make_boost_fiber_engine({});
  std::string what;
  const Engine::Fiber fiber = engine->create([&](Engine::Fiber) {
    std::thread([&] {
      try {
        engine->suspend();
      } catch (const ContractViolation& error) {
        what = error.what();
      }
    }).join();
  });
  engine->name(fiber, 3);
  engine->resume(fiber);
  EXPECT_NE(what.find("rank 3 is used on a thread or stack other than its own"), std::string::npos)
      << what;
  EXPECT_TRUE(engine->finished(fiber));
}

}  // namespace
}  // namespace lockstep::sim
