// The parts of a scenario file, each read by its own function into the value it describes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/harness/format/table_reader.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// world, sim, exact, policy: how the run is made. `exact` fills ExactSpec for all jobs too.
void read_world(TableReader& root, Scenario& scenario, Problem& problem);
/// Keys of `sim`: what takes how long. Requires: world has been read.
void read_network(TableReader& sim, Scenario& scenario, Problem& problem);
ExactSpec read_exact(TableReader& root, Problem& problem);

/// What read_job needs besides the file: where data lie and what the world is like.
struct JobSurroundings {
  std::string path;  ///< Of the scenario file: data files are relative to it.
  std::int32_t n_ranks = 1;
  std::string compat = "2.7";
  ExactSpec exact;
  std::int32_t ranks_per_node = 0;  ///< 0 = all ranks are on one.
};

/// model, data, loader, loss, optimizer, loop, ddp: one rank's job, validated.
std::shared_ptr<const Job> read_job(TableReader& root,
                                    const JobSurroundings& around,
                                    Problem& problem);
/// optimizer, scheduler, scaler, clip.
void read_optimization(TableReader& root, Job& job, Problem& problem);
/// Of an optimizer: zero, averager.
void read_sharing(TableReader& optimizer, OptimizerSpec& spec);
/// Whether they go with the rest of the job.
void check_sharing(const Job& job, std::int32_t n_ranks, TableReader& root, Problem& problem);
/// ddp.hook: a word, or a table with options.
HookSpec read_hook(TableReader& ddp, const JobSurroundings& around, Problem& problem);
/// What `policy.allow` is when the file does not say: laws that these jobs do not promise to keep.
std::vector<std::string> tolerated_laws(std::span<const std::shared_ptr<const Job>> jobs);
/// The sizes of model.kind = "gpt".
GptSpec read_gpt(TableReader& model, Problem& problem);
/// Takes vocabulary and context from the rows where they are not given, and checks that all fits.
void fit_gpt(Job& job, const std::string& where, Problem& problem);
/// Rows for training and holding out, from files or inline.
void read_data(TableReader& root, const JobSurroundings& around, Job& job, Problem& problem);

/// fault. Requires: world, sim have been read.
void read_faults(TableReader& root, Scenario& scenario, Problem& problem);
/// swarm: faults drawn from a seed. Requires: faults and jobs have been read.
void read_swarm(TableReader& root, Scenario& scenario, Problem& problem);
/// world.max_restarts and what belongs to it. Requires: the size of the world has been read.
void read_restarts(TableReader& world, Scenario& scenario, Problem& problem);
std::vector<BugSpec> read_bugs(TableReader& root, std::int32_t n_ranks, Problem& problem);
void read_programs(TableReader& root, Scenario& scenario, Problem& problem);
Expectation read_expectation(TableReader& root, std::int32_t n_ranks, Problem& problem);

/// The section `name`, or an empty one: defaults then come from one place.
TableReader section(TableReader& root, std::string_view name, Problem& problem);
/// `ranks = "all"` or a list; absent = all.
RankSet read_ranks(TableReader& table, std::int32_t n_ranks, Problem& problem);
/// A call site such as "save.py:12", or empty. Reports anything else.
std::string read_site(TableReader& table, Problem& problem);

}  // namespace lockstep
