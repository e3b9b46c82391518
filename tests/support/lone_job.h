// A job whose wrapper does not reduce on purpose, written call by call.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>

#include "tests/support/ddp_job.h"

namespace lockstep::testing {

/// Ranks under no_sync, each with gradients of its own.
struct LoneJob {
  explicit LoneJob(std::int32_t n_ranks) : job(n_ranks) {
    job.wrap();
    job.begin();
  }

  double local(std::int32_t rank) const { return 1.0 + rank; }

  double mean() const { return 0.5 * (1.0 + job.n_ranks()); }

  /// A step of every rank, with what `used` makes of the rank.
  void step(const std::function<double(std::int32_t)>& used) {
    for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
      job.at(rank);
      if (clears) job.stream.add(rank, ZeroGradEvent{.layout = job.layout()});
      look(rank, LonePoint::kFound);
      for (int micro = 0; micro < n_micro; ++micro) {
        job.forward(rank, false);
        if (loss) job.stream.add(rank, *loss);
        job.grad(rank, GradPoint::kInc, local(rank) / n_micro);
      }
      job.stream.add(rank, BackwardEvent{.reduced = false});
      job.step(rank, used(rank), 0.125);
      look(rank, LonePoint::kStepped);
    }
    stepped = true;
  }

  void lone_step() {
    step([this](std::int32_t rank) { return local(rank); });
  }

  /// The parameter as a recorder looks at it around steps without a reduction.
  void look(std::int32_t rank, LonePoint point) {
    if (!looks || (point == LonePoint::kFound && !stepped)) return;
    const double value = job.weight(rank);
    const std::uint64_t digests[] = {std::bit_cast<std::uint64_t>(value)};
    const Sketch sketches[] = {{std::abs(value), {value, value, value, value}}};
    const std::int64_t n_elems[] = {1};
    job.at(rank);
    job.stream.add(rank,
                   LoneEvent{.point = point,
                             .layout = job.layout(),
                             .digests = digests,
                             .sketches = sketches,
                             .n_elems = n_elems,
                             .dtype = DType::kF64});
  }

  /// The program's own calls, which leave no event.
  void average_by_hand(double divisor) {
    double sum = 0.0;
    for (const double weight : job.weights) sum += weight;
    for (double& weight : job.weights) weight = sum / divisor;
  }

  /// Over pairs (n = 2), or over all ranks.
  void average(std::int32_t n) {
    for (std::int32_t first = 0; first < job.n_ranks(); first += n) {
      double sum = 0.0;
      for (std::int32_t rank = first; rank < first + n; ++rank) sum += job.weight(rank);
      for (std::int32_t rank = first; rank < first + n; ++rank) {
        job.weight(rank) = sum / n;
        job.at(rank);
        const std::int32_t pair[] = {first, first + 1};
        const std::int32_t group = n < job.n_ranks() ? 1 : 0;
        if (group != 0) job.stream.add(rank, GroupEvent{.group = group, .members = pair});
        job.stream.add(rank,
                       OuterStepEvent{.kind = job.stream.name("average"),
                                      .group = group,
                                      .n_ranks = n,
                                      .denominator = static_cast<double>(n),
                                      .layout = job.layout()});
        job.state(rank, StatePoint::kOuter);
      }
    }
  }

  DdpJob job;
  int n_micro = 1;                     ///< Backwards of a step, which share its gradient.
  std::optional<LossEvent> loss = {};  ///< Each of them starts from it.
  bool clears = true;                  ///< Gradients, before each step.
  bool looks = false;                  ///< Record what is around steps.
  bool stepped = false;                ///< There was one.
};

}  // namespace lockstep::testing
