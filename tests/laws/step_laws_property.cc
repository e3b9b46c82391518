// accumulated-once, norm-true, outer-step and trained-set on drawn jobs, healthy and with one mistake.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

void clear(DdpJob& job, std::int32_t rank) {
  job.at(rank);
  job.stream.add(rank, ZeroGradEvent{.to_none = true, .layout = job.layout()});
}

/// What becomes of one rank's gradient in one step.
enum class Mistake : std::uint8_t { kNone, kKept, kTwice, kLost };

/// Contributions are powers of two, so that each sum of some of them is another number.
double contribution(std::int64_t micro) { return std::ldexp(1.0, static_cast<int>(micro)); }

RC_GTEST_PROP(AccumulatedOnceProperty, OneMiscountOfAnyRankAndStepIsNamedAndNothingElse, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(1, 5);
  const auto n_steps = *rc::gen::inRange<std::int32_t>(2, 5);
  const auto n_micro = *rc::gen::inRange<std::int64_t>(2, 5);
  const auto mistake =
      *rc::gen::element(Mistake::kNone, Mistake::kKept, Mistake::kTwice, Mistake::kLost);
  const auto guilty = *rc::gen::inRange<std::int32_t>(0, n_ranks);
  const auto bad_step = *rc::gen::inRange<std::int32_t>(1, n_steps);
  const double reduced = 1024.0;

  DdpJob job(n_ranks);
  job.wrap();
  for (std::int32_t step = 0; step < n_steps; ++step) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      const bool errs = rank == guilty && step == bad_step;
      if (!errs || mistake != Mistake::kKept) clear(job, rank);
      double found = 0.0;
      for (std::int64_t micro = 0; micro < n_micro; ++micro) {
        job.forward(rank, micro + 1 == n_micro);
        job.grad(rank, GradPoint::kInc, contribution(micro));
        found += contribution(micro);
      }
      if (errs && mistake == Mistake::kKept) found += reduced;
      if (errs && mistake == Mistake::kTwice) found += contribution(n_micro - 1);
      if (errs && mistake == Mistake::kLost) found -= contribution(n_micro - 1);
      job.grad(rank, GradPoint::kPre, found);
      job.grad(rank, GradPoint::kPost, reduced);
      job.step(rank, reduced);
    }
  }

  const LawResult result = check("accumulated-once", job.stream);
  RC_ASSERT(result.n_checked == std::int64_t{n_ranks} * n_steps);
  if (mistake == Mistake::kNone) {
    RC_ASSERT(result.verdict == Verdict::kHolds);
    return;
  }
  const std::string fields[] = {"", "kept", "twice", "lost"};
  RC_ASSERT(result.findings.size() == 1U);
  RC_ASSERT(result.findings[0].field == fields[static_cast<std::size_t>(mistake)]);
  RC_ASSERT(result.findings[0].step == std::int64_t{bad_step});
  RC_ASSERT(result.findings[0].ranks == std::vector<Rank>{Rank{guilty}});
}

/// What an evaluation between two micro-steps does to the gradients.
enum class Evaluation : std::uint8_t { kLooks, kClears, kAdds };

RC_GTEST_PROP(AccumulatedOnceProperty, AnEvaluationInsideAWindowMayOnlyLook, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(1, 4);
  const auto n_micro = *rc::gen::inRange<std::int64_t>(2, 5);
  const auto after = *rc::gen::inRange<std::int64_t>(0, n_micro - 1);
  const auto guilty = *rc::gen::inRange<std::int32_t>(0, n_ranks);
  const auto kind = *rc::gen::element(Evaluation::kLooks, Evaluation::kClears, Evaluation::kAdds);
  // Between windows it may do as it likes, as long as the next one starts from nothing.
  const auto between = *rc::gen::arbitrary<bool>();

  DdpJob job(n_ranks);
  job.wrap();
  const auto evaluates = [&](std::int32_t rank, double& found) {
    job.at(rank);
    job.stream.add(rank, PhaseEvent{PhaseKind::kEval});
    if (rank == guilty && kind == Evaluation::kClears) {
      clear(job, rank);
      found = 0.0;
    } else if (rank == guilty && kind == Evaluation::kAdds) {
      job.grad(rank, GradPoint::kInc, 4096.0);
      found += 4096.0;
    }
    job.stream.add(rank, PhaseEvent{PhaseKind::kTrain});
  };
  for (std::int32_t step = 0; step < 3; ++step) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      double found = 0.0;
      if (between) evaluates(rank, found);
      clear(job, rank);
      found = 0.0;
      for (std::int64_t micro = 0; micro < n_micro; ++micro) {
        job.forward(rank, micro + 1 == n_micro);
        job.grad(rank, GradPoint::kInc, contribution(micro));
        found += contribution(micro);
        if (!between && step == 1 && micro == after) evaluates(rank, found);
      }
      job.grad(rank, GradPoint::kPre, found);
      job.grad(rank, GradPoint::kPost, 1024.0);
      job.step(rank, 1024.0);
    }
  }

  const LawResult result = check("accumulated-once", job.stream);
  if (between || kind == Evaluation::kLooks) {
    RC_ASSERT(result.verdict == Verdict::kHolds);
    return;
  }
  RC_ASSERT(result.findings.size() == 1U);
  RC_ASSERT(id_of(result.findings[0].cause) == "evaluation-touches-gradients");
  RC_ASSERT(result.findings[0].field == (kind == Evaluation::kClears ? "cleared" : "added"));
  RC_ASSERT(result.findings[0].step == std::int64_t{1});
  RC_ASSERT(result.findings[0].ranks == std::vector<Rank>{Rank{guilty}});
}

/// All ranks clip one gradient to `limit`, given its `norm`. `applies`: before they step with it.
LawResult clipped(
    std::int32_t n_ranks, double gradient, double limit, double norm, bool applies = true) {
  DdpJob job(n_ranks);
  job.wrap();
  // Source: PyTorch's clip_grad_norm_, with its 1e-6.
  const double factor = std::min(1.0, limit / (norm + 1e-6));
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    job.forward(rank);
    job.reduce(rank, gradient, gradient, gradient);
    job.stream.add(
        rank, ClipEvent{.limit = limit, .norm = norm, .factor = factor, .layout = job.layout()});
    job.grad(rank, GradPoint::kUsed, applies ? gradient * factor : gradient);
    job.stream.add(rank, StepEvent{.lr = 1.0, .layout = job.layout()});
  }
  return check("norm-true", job.stream);
}

RC_GTEST_PROP(NormTrueProperty, OnlyTheTrueNormAndItsFactorAreAccepted, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(2, 6);
  const auto gradient = static_cast<double>(*rc::gen::inRange(1, 100));
  const auto limit = static_cast<double>(*rc::gen::inRange(1, 200)) / 2.0;
  RC_ASSERT(clipped(n_ranks, gradient, limit, gradient).verdict == Verdict::kHolds);

  // An average that each rank adds up again is too large by the root of their number.
  const double recounted = std::sqrt(static_cast<double>(n_ranks)) * gradient;
  const LawResult wrong_norm = clipped(n_ranks, gradient, limit, recounted);
  RC_ASSERT(wrong_norm.verdict == Verdict::kBroken);
  RC_ASSERT(id_of(wrong_norm.findings[0].cause) == "clip-norm-recounted");

  const LawResult not_applied = clipped(n_ranks, gradient, limit, gradient, /*applies=*/false);
  const bool clips = limit < gradient + 1e-6;
  RC_ASSERT((not_applied.verdict == Verdict::kBroken) == clips);
  if (clips) RC_ASSERT(id_of(not_applied.findings[0].cause) == "clip-not-applied");
}

RC_GTEST_PROP(OuterStepProperty, OnlyTheMeanOverAllRanksIsAccepted, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(2, 7);
  const auto denominator = *rc::gen::inRange<std::int32_t>(1, 13);
  const auto lr = static_cast<double>(*rc::gen::inRange(1, 9)) / 4.0;
  const auto odd_rank = *rc::gen::inRange<std::int32_t>(-1, n_ranks);
  DdpJob job(n_ranks);
  job.wrap();
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    job.at(rank);
    job.stream.add(rank,
                   OuterStepEvent{.kind = job.stream.name("sgd"),
                                  .n_ranks = n_ranks,
                                  .denominator = static_cast<double>(denominator),
                                  .lr = rank == odd_rank ? 2.0 * lr : lr,
                                  .layout = job.layout()});
    job.state(rank, StateKind::kParam, StatePoint::kOuter, 1.0);
  }
  const LawResult result = check("outer-step", job.stream);
  const bool healthy = denominator == n_ranks && odd_rank < 0;
  RC_ASSERT((result.verdict == Verdict::kHolds) == healthy);
  const bool names_rate =
      std::ranges::any_of(result.findings, [&](const Finding& f) { return f.field == "lr"; });
  const bool names_mean = std::ranges::any_of(
      result.findings, [&](const Finding& f) { return f.field == "denominator"; });
  RC_ASSERT(names_rate == (odd_rank >= 0));
  RC_ASSERT(names_mean == (denominator != n_ranks));
}

RC_GTEST_PROP(TrainedSetProperty, ARestOfContributionsThatNoStepUsesIsNamed, ()) {
  const auto window = *rc::gen::inRange<std::int64_t>(2, 6);
  const auto n_steps = *rc::gen::inRange<std::int64_t>(1, 4);
  const auto n_left = *rc::gen::inRange<std::int64_t>(0, window);
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    clear(job, rank);
    for (std::int64_t i = 1; i <= n_steps * window + n_left; ++i) {
      job.forward(rank, i % window == 0);
      job.grad(rank, GradPoint::kInc, 1.0);
      if (i % window != 0) continue;
      job.step(rank, 1.0);
      clear(job, rank);
    }
    job.end(rank);
  }
  const LawResult result = check("trained-set", job.stream);
  RC_ASSERT((result.verdict == Verdict::kHolds) == (n_left == 0));
  if (n_left == 0) return;
  RC_ASSERT(id_of(result.findings[0].cause) == "partial-window");
  RC_ASSERT(result.findings[0].ranks == (std::vector<Rank>{Rank{0}, Rank{1}}));
}

}  // namespace
}  // namespace lockstep
