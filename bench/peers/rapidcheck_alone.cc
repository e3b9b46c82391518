// What RapidCheck itself costs: cases a second of a property over a list that holds at once.
//
// Prints one line of JSON.
#include <chrono>
#include <cstdio>
#include <vector>

#include <rapidcheck.h>

int main() {
  constexpr int kRuns = 20;
  std::size_t n_cases = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) {
    rc::check([&n_cases](const std::vector<int>& list) {
      ++n_cases;
      RC_ASSERT(list.size() < 1'000'000U);
    });
  }
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
  std::printf("{\"cases_per_s\": %.6g}\n", static_cast<double>(n_cases) / span.count());
  return 0;
}
