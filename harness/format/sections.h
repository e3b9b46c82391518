// The parts of a scenario file, each read by its own function into the value it describes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/harness/format/schema.h"
#include "lockstep/harness/format/table_reader.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// world, sim, policy: how the run is made.
void read_world(TableReader& root, Scenario& scenario, Problem& problem);
/// Requires: the size of the world has been read.
void read_simulation(TableReader& root, Scenario& scenario, Problem& problem);
/// sim.link, sim.compute: what takes how long. Requires: world has been read.
void read_network(TableReader& sim, Scenario& scenario, Problem& problem);
void read_policy(TableReader& root, Scenario& scenario, Problem& problem);

/// Exact mode, for all jobs.
struct ExactJobs {
  ExactSpec spec;
  DType dtype = DType::kF32;  ///< Of models that do not say theirs.
};

ExactJobs read_exact(TableReader& root, Problem& problem);

/// What read_job needs besides the file: where data lie and what the world is like.
struct JobSurroundings {
  std::string path;  ///< Of the scenario file: data files are relative to it.
  std::int32_t n_ranks = 1;
  Compat compat = Compat::kTorch2;
  ExactSpec exact;
  DType dtype = DType::kF32;
  std::int32_t ranks_per_node = 0;  ///< 0 = all ranks are on one.
};

/// One job for each distinct combination of overrides; ranks with the same combination share it.
void read_jobs(TableReader& root,
               const TomlNode& document,
               const JobSurroundings& around,
               Scenario& scenario,
               Problem& problem);
/// model, data, loader, loss, optimizer, loop, ddp: one rank's job, validated.
std::shared_ptr<const Job> read_job(TableReader& root,
                                    const JobSurroundings& around,
                                    Problem& problem);
ModelSpec read_model(TableReader& root, const JobSurroundings& around, Problem& problem);
LoaderSpec read_loader(TableReader& root, std::int32_t n_ranks, Problem& problem);
LossSpec read_loss(TableReader& root, Problem& problem);
LoopSpec read_loop(TableReader& root, Problem& problem);
DdpSpec read_ddp(TableReader& root, const JobSurroundings& around, Problem& problem);
/// optimizer, scheduler, autocast, scaler, clip.
void read_optimization(TableReader& root, Job& job, Problem& problem);
SchedulerSpec read_scheduler(TableReader& root, Problem& problem);
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

/// A data set with the numbers its rows go by.
struct Rows {
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<std::int64_t> ids;  ///< Empty: 0, 1, 2, ...
};

/// The rows that a table `data` of this kind describes.
Rows read_rows(TableReader& table, DataKind kind, const std::string& scenario, Problem& problem);
/// Rows for training and holding out, from files or inline.
void read_data(TableReader& root, const JobSurroundings& around, Job& job, Problem& problem);

/// fault. Requires: world, sim have been read.
void read_faults(TableReader& root, Scenario& scenario, Problem& problem);
/// swarm: faults drawn from a seed. Requires: faults and jobs have been read.
void read_swarm(TableReader& root, Scenario& scenario, Problem& problem);
std::vector<BugSpec> read_bugs(TableReader& root, std::int32_t n_ranks, Problem& problem);
void read_programs(TableReader& root, Scenario& scenario, Problem& problem);
Expectation read_expectation(TableReader& root, std::int32_t n_ranks, Problem& problem);
/// sometimes: what a campaign of runs should reach.
void read_marks(TableReader& root, Scenario& scenario, Problem& problem);
/// Reports an id that no law has.
void check_law(const std::string& id, const std::string& where, Problem& problem);

/// What is thrown where a scenario does not say.
inline constexpr std::string_view kThrown = "thrown by the scenario";

/// The section `name`, or an empty one: defaults then come from one place.
TableReader section(TableReader& root, std::string_view name, Problem& problem);
/// `ranks = "all"` or a list; absent = all.
RankSet read_ranks(TableReader& table, std::int32_t n_ranks, Problem& problem);
/// A call site such as "save.py:12", or empty. Reports anything else.
std::string read_site(TableReader& table, Problem& problem);

// -- what each file of this room adds to the schema
std::vector<SchemaSection> head_sections();
std::vector<SchemaSection> world_sections();
std::vector<SchemaSection> sim_sections();
std::vector<SchemaSection> network_sections();
std::vector<SchemaSection> exact_sections();
std::vector<SchemaSection> model_sections();
SchemaSection gpt_section();
std::vector<SchemaSection> data_sections();
std::vector<SchemaSection> rows_sections();
std::vector<SchemaSection> loader_sections();
std::vector<SchemaSection> optimizer_sections();
std::vector<SchemaSection> sharing_sections();
std::vector<SchemaSection> scheduler_sections();
std::vector<SchemaSection> scaler_sections();
std::vector<SchemaSection> loop_sections();
std::vector<SchemaSection> ddp_sections();
std::vector<SchemaSection> hook_sections();
std::vector<SchemaSection> policy_sections();
std::vector<SchemaSection> override_sections();
std::vector<SchemaSection> bug_sections();
std::vector<SchemaSection> fault_sections();
std::vector<SchemaSection> swarm_sections();
std::vector<SchemaSection> program_sections();
std::vector<SchemaSection> expect_sections();
std::vector<SchemaSection> mark_sections();
std::vector<SchemaSection> replay_sections();

}  // namespace lockstep
