#include "lockstep/harness/explore/search/in_parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace lockstep::explore {
namespace {

/// What one thread ran into.
struct Stumble {
  std::size_t at = 0;
  std::exception_ptr thrown;
};

}  // namespace

void in_parallel(std::size_t n, std::uint64_t n_threads, const std::function<Work()>& make_work) {
  if (n == 0) return;
  const auto stride = static_cast<std::size_t>(std::clamp<std::uint64_t>(n_threads, 1, n));
  std::vector<Stumble> stumbles(stride);
  // Shares are fixed beforehand: nothing depends on which thread is faster.
  const auto share = [&](std::size_t first) {
    const Work work = make_work();
    for (std::size_t i = first; i < n; i += stride) {
      try {
        work(i);
      } catch (const std::exception& error) {
        static_cast<void>(error);
        stumbles[first] = {i, std::current_exception()};
        return;
      }
    }
  };
  std::vector<std::thread> others;
  others.reserve(stride - 1);
  for (std::size_t first = 1; first < stride; ++first) others.emplace_back(share, first);
  share(0);
  for (std::thread& other : others) other.join();
  const Stumble* earliest = nullptr;
  for (const Stumble& stumble : stumbles) {
    if (stumble.thrown == nullptr) continue;
    if (earliest == nullptr || stumble.at < earliest->at) earliest = &stumble;
  }
  if (earliest != nullptr) std::rethrow_exception(earliest->thrown);
}

}  // namespace lockstep::explore
