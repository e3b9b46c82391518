#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/laws/report.h"
#include "lockstep/trace/cohort.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::DdpJob;
using testing::policy_of;

/// Two or more steps of two or more ranks; some ranks write their weight or lose a contribution.
DdpJob any_job() {
  DdpJob job(*rc::gen::inRange(2, 5));
  const auto n_steps = *rc::gen::inRange(1, 5);
  job.wrap();
  const bool writes = *rc::gen::arbitrary<bool>();
  if (writes) job.weight(*rc::gen::inRange(0, job.n_ranks())) = *rc::gen::inRange(1, 9);
  job.begin();
  for (int step = 0; step < n_steps; ++step) {
    const auto locals = *rc::gen::container<std::vector<double>>(
        static_cast<std::size_t>(job.n_ranks()),
        rc::gen::map(rc::gen::inRange(-64, 64), [](int n) { return static_cast<double>(n); }));
    job.train_step(locals);
    const auto victim = *rc::gen::inRange(0, 3 * job.n_ranks());
    if (victim < job.n_ranks()) job.weight(victim) += 1.0;
  }
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) job.end(rank);
  return job;
}

std::string judged(const DdpJob& job, const std::vector<std::uint32_t>& draws) {
  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  job.stream.play(laws, draws);
  Report report;
  report.laws = laws.finish(job.stream.trace().names());
  return render_json(report);
}

std::string judged_together(const DdpJob& job, const std::vector<std::uint32_t>& draws) {
  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  Cohort cohort;
  cohort.begin(job.n_ranks(), laws, nullptr);
  job.stream.play(cohort, draws);
  cohort.flush(job.stream.trace().names());
  Report report;
  report.laws = laws.finish(job.stream.trace().names());
  return render_json(report);
}

RC_GTEST_PROP(LawSetProperty, TheInterleavingOfRanksDoesNotChangeTheVerdict, ()) {
  const DdpJob job = any_job();
  const auto draws =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());

  RC_ASSERT(judged(job, draws) == judged(job, {}));
}

RC_GTEST_PROP(LawSetProperty, RanksInStepAreJudgedAsOneByOne, ()) {
  const DdpJob job = any_job();
  const auto draws =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());

  RC_ASSERT(judged_together(job, draws) == judged(job, {}));
}

RC_GTEST_PROP(LawSetProperty, HealthyJobsAreQuiet, ()) {
  DdpJob job(*rc::gen::inRange(2, 6));
  job.wrap();
  job.begin();
  const auto n_steps = *rc::gen::inRange(1, 6);
  for (int step = 0; step < n_steps; ++step) {
    job.train_step(*rc::gen::container<std::vector<double>>(
        static_cast<std::size_t>(job.n_ranks()),
        rc::gen::map(rc::gen::inRange(-1000, 1000), [](int n) { return n / 7.0; })));
  }
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) job.end(rank);

  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  job.stream.play(laws);
  for (const LawResult& result : laws.finish(job.stream.trace().names())) {
    RC_ASSERT(result.verdict != Verdict::kBroken);
  }
}

}  // namespace
}  // namespace lockstep
