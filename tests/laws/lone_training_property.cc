#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/laws/report.h"
#include "lockstep/trace/cohort.h"

#include "tests/support/lone_job.h"

namespace lockstep {
namespace {

using testing::DdpJob;
using testing::LoneJob;
using testing::policy_of;

/// Lone steps, reduced ones, averages of pairs or of all, and now and then a rank with its own way.
DdpJob any_lone_job() {
  LoneJob lone(2 * *rc::gen::inRange(1, 3));
  lone.looks = *rc::gen::arbitrary<bool>();
  const auto n_steps = *rc::gen::inRange(1, 7);
  for (int step = 0; step < n_steps; ++step) {
    const auto kind = *rc::gen::inRange(0, 4);
    if (kind == 0) {
      lone.job.train_step(std::vector<double>(static_cast<std::size_t>(lone.job.n_ranks()), 1.0));
    } else if (kind == 1) {
      lone.step([&](std::int32_t) { return lone.mean(); });
    } else {
      lone.lone_step();
    }
    const auto victim = *rc::gen::inRange(0, 6 * lone.job.n_ranks());
    if (victim < lone.job.n_ranks()) lone.job.weight(victim) += 1.0;
    const auto n = *rc::gen::element(0, 2, lone.job.n_ranks());
    if (n > 0) lone.average(n);
    if (*rc::gen::inRange(0, 3) == 0) lone.average_by_hand(lone.job.n_ranks());
  }
  for (std::int32_t rank = 0; rank < lone.job.n_ranks(); ++rank) lone.job.end(rank);
  return std::move(lone.job);
}

std::string judged_lone(const DdpJob& job, const std::vector<std::uint32_t>& draws, bool together) {
  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  if (together) {
    Cohort cohort;
    cohort.begin(job.n_ranks(), laws, nullptr);
    job.stream.play(cohort, draws);
    cohort.flush(job.stream.trace().names());
  } else {
    job.stream.play(laws, draws);
  }
  Report report;
  report.laws = laws.finish(job.stream.trace().names());
  return render_json(report);
}

RC_GTEST_PROP(LoneTrainingProperty, TheVerdictDoesNotDependOnInterleavingOrCohorts, ()) {
  const DdpJob job = any_lone_job();
  const auto draws =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  const std::string alone = judged_lone(job, {}, false);
  RC_ASSERT(judged_lone(job, draws, false) == alone);
  RC_ASSERT(judged_lone(job, draws, true) == alone);
}

}  // namespace
}  // namespace lockstep
