#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/window_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::mean_of_contributions;
using testing::Micro;
using testing::policy_of;
using testing::reduced_to;
using testing::Windows;

LawResult micro_mean(const DdpJob& job) {
  return check("gradient-mean", job.stream, policy_of(job.n_ranks()));
}

RC_GTEST_PROP(MicroMeanProperty, OnlyTheDeclaredWeightsAreAccepted, ()) {
  const auto n_ranks = *rc::gen::inRange<std::size_t>(2, 5);
  const auto n_micro = *rc::gen::inRange<std::size_t>(2, 5);
  Windows windows(n_ranks, std::vector<Micro>(n_micro));
  std::int64_t n_tokens = 0;
  double summed = 0.0;
  for (std::vector<Micro>& window : windows) {
    for (Micro& micro : window) {
      micro.n_tokens = *rc::gen::inRange(1, 9);
      micro.denominator = static_cast<double>(micro.n_tokens);
      // Multiples of the denominator: contributions are whole numbers.
      micro.summed = micro.denominator * *rc::gen::inRange(1, 99);
      n_tokens += micro.n_tokens;
      summed += micro.summed;
    }
  }
  // Where all ranks have the same denominators, the mean of their means is as usual as it is even.
  RC_PRE(std::any_of(windows.begin(), windows.end(), [&](const std::vector<Micro>& window) {
    return !std::equal(
        window.begin(), window.end(), windows[0].begin(), [](const Micro& a, const Micro& b) {
          return a.n_tokens == b.n_tokens;
        });
  }));
  const double right = summed / static_cast<double>(n_tokens);
  RC_ASSERT(micro_mean(reduced_to(right, windows, "token-mean")).verdict == Verdict::kHolds);

  const double of_means = mean_of_contributions(windows);
  const auto n = static_cast<double>(n_micro);
  RC_PRE(std::abs(of_means - right) > 1e-9 && std::abs(of_means - n * right) > 1e-9);
  const LawResult result = micro_mean(reduced_to(of_means, windows, "token-mean"));
  RC_ASSERT(result.verdict == Verdict::kBroken);
  for (const double weight : result.findings[0].weights) RC_ASSERT(weight >= 0.0);
}

}  // namespace
}  // namespace lockstep
