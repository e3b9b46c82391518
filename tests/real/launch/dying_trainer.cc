// Trains a scenario with a snapshot after each step, and dies where DEATHS says so.
//
//   dying_trainer SCENARIO SNAPSHOTS RANKS [DEATHS]
//
// DEATHS is a list "attempt:rank:step,...": before that optimizer step the rank kills itself.
#include <charconv>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/real/host/launch_environment.h"
#include "lockstep/run.h"

namespace lockstep {
namespace {

class Death final : public LoopHook {
 public:
  explicit Death(std::int64_t step) : step_(step) {}

  void before(LoopPoint point, LoopState& state) override {
    if (point == LoopPoint::kStep && state.step == step_) std::raise(SIGKILL);
  }

 private:
  std::int64_t step_;
};

// The step before which this process dies, -1 = none.
std::int64_t own_death(std::string_view deaths, const LaunchEnvironment& place) {
  for (const std::string_view death : split(deaths, ',')) {
    const std::vector<std::string_view> parts = split(death, ':');
    if (parts.size() != 3) continue;
    if (parse_int(parts[0]) == place.restart_count && parse_int(parts[1]) == place.rank) {
      return parse_int(parts[2]).value_or(-1);
    }
  }
  return -1;
}

int train(const std::string& file,
          const std::string& snapshots,
          const std::string& ranks,
          const std::string& deaths) {
  Result<Scenario> loaded = load_scenario(file, "", {{"world.ranks", ranks}});
  if (!loaded.ok()) throw std::runtime_error(loaded.error().text());
  Scenario& scenario = loaded.value();
  std::map<const Job*, std::shared_ptr<const Job>> changed;
  for (auto& job : scenario.jobs) {
    std::shared_ptr<const Job>& own = changed[job.get()];
    if (own == nullptr) {
      auto copy = std::make_shared<Job>(*job);
      copy->loop.snapshot.every_steps = 1;
      copy->loop.snapshot.path = snapshots;
      own = copy;
    }
    job = own;
  }
  const auto place = read_launch_environment(process_environment());
  const bool launched = place.ok() && place.value().has_value();
  Death death(launched ? own_death(deaths, *place.value()) : -1);
  const auto run =
      run_ranks({.ranks = scenario.n_ranks, .reduction_order = ReductionOrder::kGlooRing},
                [&](RankContext& context) {
                  const auto done = run_rank(scenario, context, &death);
                  return static_cast<double>(done.n_steps);
                });
  std::printf("outcome %s\n", lockstep::name_of(run.report.outcome).data());
  if (!run.report.error.empty()) std::printf("%s\n", run.report.error.c_str());
  return run.ok() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return lockstep::train(argv[1], argv[2], argv[3], argc > 4 ? argv[4] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dying_trainer: %s\n", error.what());
    return 3;
  }
}
