// Laws that receive ranks in step together reach the same verdicts as laws that receive each rank.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/cohort.h"

namespace lockstep {
namespace {

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const char* folder : {"zoo", "kill_matrix", "lessons", "healthy"}) {
    const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/" + folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Counts what it passes on.
class Counting final : public CohortSink {
 public:
  explicit Counting(LawSet& laws) : laws_(&laws) {}

  void on_event(const Event& event, const NameTable& names) override {
    laws_->on_event(event, names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    ++n_together_;
    laws_->on_cohort(event, names);
  }

  EventKinds reads() const override { return laws_->reads(); }

  std::int64_t n_together() const { return n_together_; }

 private:
  LawSet* laws_;
  std::int64_t n_together_ = 0;
};

LawPolicy policy_of(const Scenario& scenario, std::int32_t n_ranks) {
  LawPolicy policy = scenario.session.policy;
  policy.n_ranks = n_ranks;
  policy.exact = scenario.session.exact;
  policy.watched = true;
  return policy;
}

std::string verdicts(LawSet& laws, const NameTable& names) {
  Report report;
  report.laws = laws.finish(names);
  return render_json(report);
}

class BothWays {
 public:
  void compare(const Scenario& scenario) {
    const Result<ScenarioResult> run = run_scenario(scenario, {});
    ASSERT_TRUE(run.ok()) << run.error().text();
    const MemoryTrace* const trace = run.value().session.trace.get();
    if (trace == nullptr) return;
    const LawPolicy policy = policy_of(scenario, scenario.session.n_ranks);
    LawSet each = std::move(LawSet::make(policy).value());
    LawSet all = std::move(LawSet::make(policy).value());
    Counting counting(all);
    Cohort cohort;
    cohort.begin(policy.n_ranks, counting, nullptr);

    replay(*trace, each);
    replay(*trace, cohort);
    cohort.flush(trace->names());

    EXPECT_EQ(verdicts(all, trace->names()), verdicts(each, trace->names()));
    ++n_runs_;
    n_together_ += counting.n_together();
  }

  int n_runs() const { return n_runs_; }

  std::int64_t n_together() const { return n_together_; }

 private:
  int n_runs_ = 0;
  std::int64_t n_together_ = 0;
};

TEST(CohortLawsTest, EveryScenarioGetsTheSameVerdicts) {
  BothWays both;
  for (const std::string& file : scenario_files()) {
    const auto variants = list_variants(file);
    ASSERT_TRUE(variants.ok()) << variants.error().text();
    for (const std::string& variant : variants.value()) {
      SCOPED_TRACE(file + " " + variant);
      const Result<Scenario> scenario = load_scenario(file, variant, {});
      ASSERT_TRUE(scenario.ok()) << scenario.error().text();
      both.compare(scenario.value());
    }
  }
  EXPECT_GT(both.n_runs(), 300);
  EXPECT_GT(both.n_together(), 10000);
}

}  // namespace
}  // namespace lockstep
