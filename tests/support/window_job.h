// One reduction of several micro-steps with denominators of their own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/support/ddp_job.h"

namespace lockstep::testing {

/// One backward: `summed` is the gradient of its summed loss.
struct Micro {
  double summed = 0.0;
  std::int64_t n_tokens = 1;
  double denominator = 1.0;

  double contribution() const { return summed / denominator; }
};

using Windows = std::vector<std::vector<Micro>>;  // By rank.

/// The windows' contributions are added up and reduced once, to `reduced`. Requires: the job is wrapped.
inline void reduce_to(double reduced,
                      const Windows& windows,
                      std::string_view declared,
                      DdpJob& job) {
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const std::vector<Micro>& window = windows[static_cast<std::size_t>(rank)];
    double sum = 0.0;
    for (const Micro& micro : window) {
      const bool last = &micro == &window.back();
      job.forward(rank, last);
      job.batch(rank, micro.n_tokens, micro.n_tokens, micro.denominator, declared);
      sum += micro.contribution();
      if (last) {
        job.reduce(rank, micro.contribution(), sum, reduced);
      } else {
        job.grad(rank, GradPoint::kInc, micro.contribution());
      }
    }
    job.step(rank, reduced);
  }
}

/// A job with this reduction alone.
inline DdpJob reduced_to(double reduced, const Windows& windows, std::string_view declared) {
  DdpJob job(static_cast<std::int32_t>(windows.size()));
  job.wrap();
  reduce_to(reduced, windows, declared, job);
  return job;
}

inline double mean_of_contributions(const Windows& windows) {
  double sum = 0.0;
  for (const std::vector<Micro>& window : windows) {
    for (const Micro& micro : window) sum += micro.contribution();
  }
  return sum / static_cast<double>(windows.size());
}

}  // namespace lockstep::testing
