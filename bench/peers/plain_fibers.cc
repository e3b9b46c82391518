// Boost.Fiber without a simulator around it: yields per second of 10,000 fibers, first in, first out, and at random.
//
// Prints one line of JSON.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/scheduler.hpp>

namespace {

// Any of those that are ready, each with the same probability. It knows nothing of the pick after this one.
class AtRandom final : public boost::fibers::algo::algorithm {
 public:
  void awakened(boost::fibers::context* fiber) noexcept override { ready_.push_back(fiber); }

  boost::fibers::context* pick_next() noexcept override {
    if (ready_.empty()) return nullptr;
    const std::uint64_t at = (std::uint64_t{random_()} * ready_.size()) >> 32U;
    std::swap(ready_[at], ready_.back());
    boost::fibers::context* const next = ready_.back();
    ready_.pop_back();
    return next;
  }

  bool has_ready_fibers() const noexcept override { return !ready_.empty(); }

  void suspend_until(const std::chrono::steady_clock::time_point& /*time*/) noexcept override {}

  void notify() noexcept override {}

 private:
  std::vector<boost::fibers::context*> ready_;
  std::mt19937 random_{1};  // NOLINT(bugprone-random-generator-seed) Each run has the same order.
};

// From when all fibers have run once, so that all stacks are touched, to the end of the first: while all are there.
double yields_per_second() {
  constexpr int kFibers = 10'000;
  constexpr int kYields = 400;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  int n_begun = 0;
  std::int64_t n_yields = 0;
  std::int64_t n_measured = 0;
  std::vector<boost::fibers::fiber> fibers;
  fibers.reserve(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&] {
      if (++n_begun == kFibers) {
        begin = std::chrono::steady_clock::now();
        n_yields = 0;
      }
      for (int k = 0; k < kYields; ++k) {
        boost::this_fiber::yield();
        ++n_yields;
      }
      if (n_measured != 0) return;
      end = std::chrono::steady_clock::now();
      n_measured = n_yields;
    });
  }
  for (boost::fibers::fiber& fiber : fibers) fiber.join();
  const std::chrono::duration<double> span = end - begin;
  return static_cast<double>(n_measured) / span.count();
}

}  // namespace

int main() {
  double in_order = 0.0;
  double at_random = 0.0;
  for (int run = 0; run < 3; ++run) {  // The best counts: other load only makes a run slower.
    std::thread([&] { in_order = std::max(in_order, yields_per_second()); }).join();
    std::thread([&] {
      boost::fibers::use_scheduling_algorithm<AtRandom>();
      at_random = std::max(at_random, yields_per_second());
    }).join();
  }
  std::printf("{\"yields_per_s\": %.6g, \"random_yields_per_s\": %.6g}\n", in_order, at_random);
  return 0;
}
