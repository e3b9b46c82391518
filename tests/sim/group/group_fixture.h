// Runs a program on simulated ranks with groups, and keeps what tests inspect.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::sim::testing {

struct GroupRun {
  WorldResult world;
  std::string explanation;
  WaitForGraph wait_for;
  std::vector<std::int32_t> missing;
};

struct GroupRunOptions {
  std::int32_t n_ranks = 2;
  GroupOptions group{};
  bool keep_going = false;
  std::uint64_t livelock_points = 50'000'000;
  bool exact = false;
};

using GroupProgram = std::function<void(ProcessGroup&, RankHandle&)>;

inline GroupRun run_groups(const GroupRunOptions& options,
                           Strategy& strategy,
                           const GroupProgram& program) {
  World world;
  SimGroups groups(world, options.group);
  const auto cpu = make_cpu_kernels();
  ExactObserver exact;
  if (options.exact) cpu->observe(&exact);
  Pool pool;
  GroupRun run;
  run.world = world.run({.n_ranks = options.n_ranks,
                         .keep_going = options.keep_going,
                         .livelock_points = options.livelock_points},
                        strategy,
                        [&](RankHandle& handle) {
                          Runtime runtime(pool, *cpu, handle);
                          const auto group = groups.world_group(handle, runtime);
                          program(*group, handle);
                        });
  if (run.world.stuck) run.explanation = groups.explain(*run.world.stuck);
  run.wait_for = groups.wait_for();
  for (const Rank rank : groups.missing_ranks()) run.missing.push_back(to_int(rank));
  return run;
}

inline GroupRun run_groups(const GroupRunOptions& options, const GroupProgram& program) {
  return run_groups(options, *make_round_robin(), program);
}

inline Tensor ones(ProcessGroup& group, std::int64_t n) {
  return Tensor::full(group.runtime(), {n}, DType::kF32, 1.0);
}

inline OpOptions at(const char* file, std::int32_t line) { return {.site = {file, line, ""}}; }

}  // namespace lockstep::sim::testing
