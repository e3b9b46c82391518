// The physical limit against which large all-reduces are judged: memory bandwidth of one thread.
//
// Prints one line of JSON: the best bytes a second of memcpy and of a[i] = b[i] + s * c[i] over
// arrays of 64 MiB, counting bytes that the program reads and writes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kElems = std::size_t{16} << 20U;
constexpr int kRuns = 8;

template <typename Body>
double best_seconds(Body body) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
    best = std::min(best, span.count());
  }
  return best;
}

}  // namespace

int main() {
  std::vector<float> a(kElems, 1.0F);
  std::vector<float> b(kElems, 2.0F);
  const std::vector<float> c(kElems, 3.0F);
  const double bytes = static_cast<double>(kElems) * sizeof(float);
  const double copy =
      best_seconds([&] { std::memcpy(b.data(), a.data(), kElems * sizeof(float)); });
  const double triad = best_seconds([&] {
    for (std::size_t i = 0; i < kElems; ++i) a[i] = b[i] + 0.5F * c[i];
  });
  std::printf("{\"memcpy\": %.6g, \"triad\": %.6g, \"check\": %g}\n",
              2.0 * bytes / copy,
              3.0 * bytes / triad,
              static_cast<double>(a[kElems / 2]));
  return 0;
}
