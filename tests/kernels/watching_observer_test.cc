// What the watching observer reports, and where. Which operands it sees: directions_test.cc.
#include "lockstep/kernels/watching_observer.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

struct SeenAccesses final : InFlight::Listener {
  void on_touch(const InFlight::Loan& /*loan*/, const InFlight::Access& access) override {
    accesses.push_back(access);
  }

  std::vector<InFlight::Access> accesses;
};

class WatchingObserverTest : public ::testing::Test {
 protected:
  WatchingObserverTest() { test.kernels->observe(&watching); }

  TestRuntime test;
  WatchingObserver watching;
};

TEST_F(WatchingObserverTest, AViewOfTheMemoryIsTheMemory) {
  const Tensor bucket = Tensor::zeros(test.runtime, {8}, DType::kF32);
  const Tensor inside = bucket.slice(4, {2});
  const Tensor outside = bucket.slice(0, {4});
  SeenAccesses listener;
  InFlight in_flight;
  in_flight.listen(&listener);
  const auto* begin = static_cast<const std::byte*>(bucket.raw());
  in_flight.lend({.begin = begin + 16, .end = begin + 32, .written = true, .work = 1});
  test.runtime.set_in_flight(&in_flight);
  test.kernels->fill(outside, 1.0);
  EXPECT_TRUE(listener.accesses.empty());
  test.kernels->fill(inside, 1.0);
  ASSERT_EQ(listener.accesses.size(), 1U);
  (void)bucket.at(4);
  ASSERT_EQ(listener.accesses.size(), 2U);
  EXPECT_EQ(listener.accesses[1].operation, "element");
  EXPECT_NE(std::string(listener.accesses[1].site.file).find("watching_observer_test.cc"),
            std::string::npos);
  (void)bucket.at(5);
  EXPECT_EQ(listener.accesses.size(), 2U);  // Once a transfer and kind of access is enough.
  in_flight.give_back(1);
  test.kernels->fill(inside, 2.0);
  EXPECT_EQ(listener.accesses.size(), 2U);
  test.runtime.set_in_flight(nullptr);
}

TEST_F(WatchingObserverTest, AccessesInsideASiteAreReportedThere) {
  const Tensor data = Tensor::zeros(test.runtime, {2}, DType::kF32);
  SeenAccesses listener;
  InFlight in_flight;
  in_flight.listen(&listener);
  const auto* begin = static_cast<const std::byte*>(data.raw());
  in_flight.lend({.begin = begin, .end = begin + 8, .written = true, .work = 1});
  test.runtime.set_in_flight(&in_flight);
  {
    const AccessSite site(&in_flight, {"clip.py", 3, ""});
    test.kernels->fill(data, 1.0);
  }
  (void)data.at(0);
  test.runtime.set_in_flight(nullptr);
  ASSERT_EQ(listener.accesses.size(), 2U);
  EXPECT_STREQ(listener.accesses[0].site.file, "clip.py");
  EXPECT_STRNE(listener.accesses[1].site.file, "clip.py");
}

// As in a simulated rank: watched kernels serve between a collective and the wait for it, and no longer.
TEST_F(WatchingObserverTest, WatchedKernelsServeAsLongAsMemoryIsInFlight) {
  const std::unique_ptr<Kernels> watched = make_cpu_kernels();
  const auto is_watched = [&] { return &test.runtime.kernels() == watched.get(); };
  InFlight in_flight(test.runtime);
  test.runtime.set_watched_kernels(*watched);
  const Tensor data = Tensor::zeros(test.runtime, {2}, DType::kF32);
  const auto* begin = static_cast<const std::byte*>(data.raw());
  EXPECT_FALSE(is_watched());
  in_flight.lend({.begin = begin, .end = begin + 4, .work = 1});
  in_flight.lend({.begin = begin + 4, .end = begin + 8, .written = true, .work = 1});
  in_flight.lend({.begin = begin, .end = begin + 8, .work = 2});
  in_flight.give_back(1);
  EXPECT_TRUE(is_watched());
  in_flight.give_back(2);
  EXPECT_FALSE(is_watched());
  in_flight.give_back(2);
  EXPECT_FALSE(is_watched());
}

TEST_F(WatchingObserverTest, WatchedKernelsServeAsLongAsAnExchangeIsOpen) {
  const std::unique_ptr<Kernels> watched = make_cpu_kernels();
  const auto is_watched = [&] { return &test.runtime.kernels() == watched.get(); };
  ExchangeWatch exchanges(test.runtime);
  test.runtime.set_watched_kernels(*watched);
  test.runtime.set_exchanges(&exchanges);
  {
    const Tensor result = Tensor::zeros(test.runtime, {2}, DType::kF32);
    const std::array<Storage*, 1> results{result.storage().get()};
    EXPECT_FALSE(is_watched());
    exchanges.begin({}, {.results = results});
    EXPECT_TRUE(is_watched());
    exchanges.begin_backward(result.storage()->origin());
    exchanges.end_backward();
    EXPECT_TRUE(is_watched());  // Another part of the loss may have it.
    exchanges.begin_backward(0);
    exchanges.end_backward();
    EXPECT_FALSE(is_watched());
  }
  test.runtime.set_exchanges(nullptr);
}

}  // namespace
}  // namespace lockstep
