// Words of the commands that start real processes.
#include <CLI/CLI.hpp>

#include "lockstep/harness/cli/grammar/detail/grammar.h"

namespace lockstep::cli {
namespace {

void add_machines(CommandWords& words, LaunchArguments& to) {
  words.option("--nproc-per-node,--nproc_per_node", to.nproc_per_node, "N", "Ranks per machine");
  words.option("--nnodes", to.nnodes, "N", "Number of machines");
  words.option("--node-rank,--node_rank", to.node_rank, "INDEX", "Index of this machine");
  words.option("--master-addr,--master_addr", to.master_addr, "HOST", "Host of rank 0");
  words.option("--master-port,--master_port", to.master_port, "PORT", "A free port on that host");
  words.option("--launcher-port",
               to.launcher_port,
               "PORT",
               "Port on that host where the launchers meet",
               "the port after --master-port");
  words.option("--join-timeout",
               to.join_timeout_s,
               "SECONDS",
               "Deadline for the launchers of all machines to join");
  words.flag("--standalone", to.standalone, "One machine, any free port");
}

}  // namespace

void add_words(CLI::App& app, HelpPage& page, CrosscheckArguments& to) {
  CommandWords words(
      app, page, "Runs a scenario simulated and on real processes, and compares every event.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  words.required("--against", to.against, "BACKEND", "gloo or nccl");
  words.option("--variant", to.variant, "NAME", "Variant to run", "the file's base");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario, such as loop.steps=3",
             "as the file says");
  words.option("--nproc", to.nproc, "N", "Number of ranks", "the scenario's")
      .check(from_one_to(kMany));
  words.option("--trace", to.trace, "DIR", "Keeps the real run's events in this folder", "none");
  words
      .option(
          "--timeout", to.timeout_s, "SECONDS", "Deadline for connecting and for each operation")
      .check(from_one_to(kMany));
  words.flag("--laws", to.laws, "Also lists every law with its verdict on the real run");
  words.hidden("--flip-bit", to.flip_bit);
  words.example("Compare with processes that talk through Gloo",
                "lockstep crosscheck scenarios/jobs/digits.toml --against gloo --nproc 2");
}

void add_words(CLI::App& app, HelpPage& page, LaunchArguments& to) {
  CommandWords words(app, page, "Starts PROGRAM as one process per rank, as torchrun does.");
  words.tail("-- PROGRAM [ARGUMENT...]");
  add_machines(words, to);
  words.option("--max-restarts,--max_restarts",
               to.max_restarts,
               "N",
               "How often all ranks are restarted after a failure");
  words.option("--monitor-interval,--monitor_interval",
               to.monitor_interval_s,
               "SECONDS",
               "Seconds between health checks");
  words.option("--grace", to.grace_s, "SECONDS", "Seconds between SIGTERM and SIGKILL");
  words.option("--rdzv-id,--rdzv_id", to.run_id, "ID", "Name of the run");
  words.option("--log-dir,--log_dir",
               to.log_dir,
               "DIR",
               "Folder for the files of --redirects and --tee",
               "a new temporary folder");
  words.option("--redirects",
               to.redirects,
               "STREAMS",
               "Output that goes to files only: 0 none, 1 stdout, 2 stderr, 3 both; or "
               "RANK:STREAMS,...");
  words.option("--tee", to.tee, "STREAMS", "Output that also goes to files, in the same form");
  words.option("--backend",
               to.backend,
               "BACKEND",
               "What run_ranks uses in PROGRAM: gloo or nccl",
               "what LOCKSTEP_BACKEND says");
  words.option("--trace", to.trace, "DIR", "Folder where run_ranks writes its traces", "none");
  words.flag("--check-arrivals",
             to.check_arrivals,
             "Compares what arrives with what was sent, in every operation of run_ranks");
  words.example("Start two ranks on this machine",
                "lockstep launch --nproc-per-node 2 -- ./program");
  words.example(
      "Start four, with one restart and their output in files as well",
      "lockstep launch --nproc-per-node 4 --max-restarts 1 --tee 3 --log-dir logs -- ./program");
}

void add_words(CLI::App& app, HelpPage& page, RankArguments& to) {
  CommandWords words(app, page, "Runs one rank of a scenario; a launcher starts it.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  words.option("--variant", to.variant, "NAME", "Variant to run", "the file's base");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario, such as loop.steps=3",
             "as the file says");
  words
      .option(
          "--timeout", to.timeout_s, "SECONDS", "Deadline for connecting and for each operation")
      .check(from_one_to(kMany));
  words.hidden("--flip-bit", to.flip_bit);
  words.flag("--values", to.values, "Records tensor values in the trace, not only their digests");
  words.hidden("--digests-only", to.digests_only);
}

}  // namespace lockstep::cli
