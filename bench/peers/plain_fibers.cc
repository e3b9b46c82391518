// Boost.Fiber without a simulator around it: yields a second of 10,000 fibers, first in, first out.
//
// Prints one line of JSON.
#include <chrono>
#include <cstdio>
#include <vector>

#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>

int main() {
  constexpr int kFibers = 10'000;
  constexpr int kYields = 200;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  std::vector<boost::fibers::fiber> fibers;
  fibers.reserve(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&begin, &end, i] {
      boost::this_fiber::yield();  // All stacks are touched once before the clock starts.
      if (i == 0) begin = std::chrono::steady_clock::now();
      for (int k = 0; k < kYields; ++k) boost::this_fiber::yield();
      end = std::chrono::steady_clock::now();
    });
  }
  for (boost::fibers::fiber& fiber : fibers) fiber.join();
  const std::chrono::duration<double> span = end - begin;
  std::printf("{\"yields_per_s\": %.6g}\n", double{kFibers} * kYields / span.count());
  return 0;
}
