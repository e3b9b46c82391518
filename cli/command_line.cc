#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr int kMany = 1'000'000;  ///< Ranks, seconds or runs.
constexpr int kMostThreads = 1024;

/// The grammar, with every option bound to a field of the argument structs.
class Grammar {
 public:
  Grammar() {
    app_.name("lockstep");
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
    add_run();
    add_test();
    add_zoo();
    add_explore();
    add_replay();
    add_check();
    add_export();
    add_analyze();
    add_diff();
    add_bisect();
    app_.add_subcommand("laws", "Prints the numbered contract");
    add_sampler();
    add_nccl_log();
    add_crosscheck();
    add_launch();
    add_rank();
    for (CLI::App* command : commands()) command->allow_extras();
  }

  Command parse(int argc, const char* const* argv) {
    if (argc < 2) return Information{app_.help()};
    if (auto error = unknown_command(argv[1])) return *error;
    if (std::string_view(argv[1]) == "launch") argc = take_program(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      const auto chosen = app_.get_subcommands();
      return Information{chosen.empty() ? app_.help() : chosen.front()->help("lockstep")};
    } catch (const CLI::CallForVersion& version) {
      return Information{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
      return UsageError{prefix() + sentence(error.what())};
    }
    CLI::App& command = *app_.get_subcommands().front();
    if (auto error = leftover(command)) return *error;
    return chosen(command.get_name());
  }

 private:
  /// Everything behind "--" is the program's own. Returns how many words are left.
  int take_program(int argc, const char* const* argv) {
    for (int i = 2; i < argc; ++i) {
      if (std::string_view(argv[i]) != "--") continue;
      launch_.command.assign(argv + i + 1, argv + argc);
      return i;
    }
    return argc;
  }

  std::vector<CLI::App*> commands() {
    return app_.get_subcommands([](CLI::App*) { return true; });
  }

  void add_run() {
    CLI::App* command = app_.add_subcommand("run", "Runs a scenario and checks the laws");
    command->add_option("scenario", run_.file, "The scenario file")->required();
    command->add_option("--variant", run_.variant, "One of the file's variants");
    command->add_option("--backend", run_.backend, "sim, or one process a rank: gloo, nccl");
    command->add_option("--nproc", run_.nproc, "Ranks, instead of the scenario's number")
        ->check(CLI::Range(1, kMany));
    command->add_option("--timeout", run_.timeout_s, "Seconds a real rank waits for the others")
        ->check(CLI::Range(1, kMany));
    command->add_option("--schedule-seed", run_.schedule_seed, "Random schedule with this seed");
    command->add_option("--set", run_.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_option("--trace", run_.trace, "Writes the events of each rank into this folder");
    command->add_option("--report", run_.report, "Writes FILE.html, FILE.json or FILE.xml (JUnit)");
    command->add_option("--repro", run_.repro, "Writes a file for `lockstep replay` on findings");
    command->add_flag("--values", run_.values, "Records values, not only digests");
    command->add_flag("--twice", run_.twice, "Runs again at other addresses; digests must agree");
    command->add_flag("--quiet", run_.quiet, "Prints nothing but errors");
  }

  void add_test() {
    CLI::App* command = app_.add_subcommand(
        "test", "Runs every variant; succeeds when each meets its expectations");
    command->add_option("scenarios", test_.files, "Scenario files")->required();
    command->add_option(
        "--report", test_.report, "Writes FILE.html, FILE.json or FILE.xml (JUnit)");
  }

  void add_zoo() {
    CLI::App* command = app_.add_subcommand(
        "zoo", "Runs all known bugs and their healthy look-alikes: the scoreboard");
    command->add_option("folder", zoo_.folder, "Scenarios of your own, instead of the project's");
    command->add_flag("--json", zoo_.json, "Prints the scoreboard as JSON");
  }

  /// Options that belong to `explore` without a scenario.
  void add_random_jobs(CLI::App& command, CLI::Option& file) {
    ExploreArguments& to = explore_;
    command
        .add_option("--jobs", to.jobs, "So many random correct jobs [1000]; of a file as --threads")
        ->check(CLI::Range(1, 1000 * kMany));
    command.add_option("--first", to.first, "Begins with this random job [0]")->excludes(&file);
    command.add_option("--seed", to.seed, "Which random jobs [0]")->excludes(&file);
    command
        .add_option(
            "--thorough-every", to.thorough_every, "So many apart, jobs run repeatedly [16]")
        ->excludes(&file);
  }

  void add_explore() {
    ExploreArguments& to = explore_;
    CLI::App* command = app_.add_subcommand(
        "explore", "Tries other schedules and seeds of a scenario, and makes a failure small");
    auto* file = command->add_option("scenario", to.file, "The file; without one: random jobs");
    add_random_jobs(*command, *file);
    command->add_option("--variant", to.variant, "One of the file's variants");
    command->add_option("--set", to.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_option("--runs", to.runs, "At most so many runs [1000]")
        ->check(CLI::Range(1, kMany));
    command->add_option("--strategy", to.strategy, "random, pct:depth=3 or exhaustive [random]");
    command->add_option("--seeds", to.seeds, "So many seeds of the job, in turns [1]")
        ->check(CLI::Range(1, kMany));
    command->add_flag("--vary", to.vary, "Also small changes: ranks, rows, steps, buckets, orders");
    command->add_option("-j,--threads", to.threads, "Worlds at once, on a thread each [1]")
        ->check(CLI::Range(1, kMostThreads));
    command->add_option("--out", to.out, "Where a failure is written [lockstep-out]");
    command->add_option("--regressions", to.regressions, "Kept failures, tried first next time");
  }

  void add_replay() {
    CLI::App* command = app_.add_subcommand("replay", "Repeats a run from its reproduction file");
    command->add_option("reproduction", replay_.file, "A file that `run` wrote")->required();
    command->add_flag("--quiet", replay_.quiet, "Prints nothing but errors");
  }

  void add_check() {
    CLI::App* command = app_.add_subcommand("check", "Checks the laws on recorded traces");
    command->add_option("folders", check_.folders, "Trace folders, or dumps of a Flight Recorder")
        ->required();
    command->add_option("--law", check_.laws, "Only this law")->expected(1)->take_all();
    command->add_option("--allow", check_.allow, "LAW or LAW@TENSOR: exempt on purpose")
        ->expected(1)
        ->take_all();
    command->add_option(
        "--report", check_.report, "Writes FILE.html, FILE.json or FILE.xml (JUnit)");
    command->add_flag("--json", check_.json, "Prints the report as JSON");
  }

  void add_bisect() {
    CLI::App* command =
        app_.add_subcommand("bisect", "Finds where two traces, or the ranks of one, first differ");
    command->add_option("traces", bisect_.folders, "A trace folder, or two")
        ->required()
        ->expected(1, 2);
  }

  void add_diff() {
    CLI::App* command = app_.add_subcommand("diff", "Finds the first difference of two traces");
    command->add_option("left", diff_.left, "A trace folder")->required();
    command->add_option("right", diff_.right, "Another one")->required();
  }

  void add_export() {
    CLI::App* command = app_.add_subcommand("export", "Draws a trace for ui.perfetto.dev");
    command->add_option("folder", export_.folder, "A trace folder")->required();
    command->add_option("--perfetto", export_.perfetto, "FILE.json to write")->required();
  }

  void add_analyze() {
    CLI::App* command =
        app_.add_subcommand("analyze", "Measures how much of a result is the order of additions");
    command->add_option("scenario", analyze_.file, "The scenario file")->required();
    command->add_option("--variant", analyze_.variant, "One of the file's variants");
    command->add_option("--set", analyze_.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_flag("--json", analyze_.json, "Prints JSON");
  }

  void add_sampler() {
    CLI::App* command =
        app_.add_subcommand("sampler", "Prints what DistributedSampler gives each rank");
    command->add_option("--size", sampler_.size, "Samples in the data set")->required();
    command->add_option("--replicas", sampler_.replicas, "Ranks")->required();
    command->add_option("--rank", sampler_.rank, "Only this rank");
    command->add_option("--epoch", sampler_.epoch, "What set_epoch was given");
    command->add_option("--seed", sampler_.seed, "The sampler's seed");
    command->add_flag("!--no-shuffle", sampler_.shuffle, "In the data set's order");
    command->add_flag("--drop-last", sampler_.drop_last, "Cut the uneven tail instead of padding");
  }

  void add_nccl_log() {
    CLI::App* command =
        app_.add_subcommand("nccl-log", "Reads from NCCL's log in which order a real run added");
    command->add_option("logs", nccl_log_.files, "Rank 0's log, or those of all ranks")->required();
  }

  void add_crosscheck() {
    CLI::App* command = app_.add_subcommand(
        "crosscheck", "Runs a scenario simulated and on real processes; every event must agree");
    command->add_option("scenario", crosscheck_.file, "The scenario file")->required();
    command->add_option("--against", crosscheck_.against, "gloo or nccl")->required();
    command->add_option("--variant", crosscheck_.variant, "One of the file's variants");
    command->add_option("--nproc", crosscheck_.nproc, "Ranks, instead of the scenario's number")
        ->check(CLI::Range(1, kMany));
    command->add_option("--set", crosscheck_.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_option("--trace", crosscheck_.trace, "Keeps the real run's events in this folder");
    command->add_option("--timeout", crosscheck_.timeout_s, "Seconds a rank waits for the others")
        ->check(CLI::Range(1, kMany));
    command->add_option("--flip-bit", crosscheck_.flip_bit)->group("");
  }

  void add_launch() {
    LaunchArguments& to = launch_;
    CLI::App* command = app_.add_subcommand(
        "launch", "Starts PROGRAM once a rank, as torchrun does: lockstep launch ... -- PROGRAM");
    command->add_option("--nproc-per-node,--nproc_per_node", to.nproc_per_node, "Ranks here");
    command->add_option("--nnodes", to.nnodes, "Machines");
    command->add_option("--node-rank,--node_rank", to.node_rank, "Which machine this is");
    command->add_option("--master-addr,--master_addr", to.master_addr, "Where rank 0 runs");
    command->add_option("--master-port,--master_port", to.master_port, "A free port there");
    command->add_option(
        "--launcher-port", to.launcher_port, "Where the launchers meet there [the next port]");
    command->add_option(
        "--join-timeout", to.join_timeout_s, "Seconds for the launchers of all machines to come");
    command->add_flag("--standalone", to.standalone, "One machine, any free port");
    command->add_option("--max-restarts,--max_restarts", to.max_restarts, "Of all ranks together");
    command->add_option(
        "--monitor-interval,--monitor_interval", to.monitor_interval_s, "Seconds between looks");
    command->add_option("--grace", to.grace_s, "Seconds between SIGTERM and SIGKILL");
    command->add_option("--rdzv-id,--rdzv_id", to.run_id, "The run's name");
    command->add_option("--log-dir,--log_dir", to.log_dir, "Files of --redirects and --tee");
    command->add_option("--redirects", to.redirects, "Into files: 1 stdout, 2 stderr, 3 both");
    command->add_option("--tee", to.tee, "Into files as well: 1, 2, 3");
    command->add_option("--backend", to.backend, "What run_ranks uses in PROGRAM: gloo or nccl");
    command->add_option("--trace", to.trace, "Where run_ranks leaves its traces");
  }

  void add_rank() {
    CLI::App* command = app_.add_subcommand("rank", "One rank of a scenario, under a launcher");
    command->group("");
    command->add_option("scenario", rank_.file, "The scenario file")->required();
    command->add_option("--variant", rank_.variant, "One of the file's variants");
    command->add_option("--set", rank_.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_option("--timeout", rank_.timeout_s, "Seconds to wait for the others")
        ->check(CLI::Range(1, kMany));
    command->add_option("--flip-bit", rank_.flip_bit)->group("");
    command->add_flag("--values", rank_.values, "Records values, not only digests");
    command->add_flag("--digests-only", rank_.digests_only)->group("");
  }

  std::optional<UsageError> unknown_command(std::string_view word) {
    if (!word.empty() && word.front() == '-') return unknown_option(app_, std::string(word));
    std::vector<std::string> names;
    for (const CLI::App* command : commands()) names.push_back(command->get_name());
    std::vector<std::string> shown;  // Not the one that launchers start.
    std::copy_if(
        names.begin(), names.end(), std::back_inserter(shown), [](const std::string& name) {
          return name != "rank";
        });
    if (std::find(names.begin(), names.end(), word) != names.end()) return std::nullopt;
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string guess = did_you_mean(word, known);
    return UsageError{"lockstep: unknown command '" + std::string(word) + "'" +
                      (guess.empty() ? "; the commands are " + join(shown) : guess)};
  }

  /// Words that no option took: the first one that looks like an option is the typo.
  static std::optional<UsageError> leftover(const CLI::App& command) {
    const std::vector<std::string> extra = command.remaining();
    if (extra.empty()) return std::nullopt;
    for (const std::string& word : extra) {
      if (!word.empty() && word.front() == '-') return unknown_option(command, word);
    }
    const bool launches = command.get_name() == "launch";
    return UsageError{"lockstep " + command.get_name() + ": unexpected argument '" + extra.front() +
                      "'" + (launches ? "; write the program behind --" : "")};
  }

  /// The complaint about an option that `command` does not have, or nothing when it has it.
  static std::optional<UsageError> unknown_option(const CLI::App& command,
                                                  const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
      for (const std::string& known : option->get_snames()) names.push_back("-" + known);
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) return std::nullopt;
    const bool top = command.get_parent() == nullptr;
    const std::vector<std::string_view> known(names.begin(), names.end());
    return UsageError{(top ? "lockstep" : "lockstep " + command.get_name()) + ": unknown option '" +
                      name + "'" + did_you_mean(name, known)};
  }

  std::string prefix() {
    const auto chosen = app_.get_subcommands();
    return chosen.empty() ? "lockstep: " : "lockstep " + chosen.front()->get_name() + ": ";
  }

  /// The parser's texts begin with a capital and may end with a full stop.
  static std::string sentence(std::string text) {
    if (!text.empty()) text.front() = CLI::detail::to_lower(text.substr(0, 1)).front();
    while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
    return text;
  }

  Command chosen(const std::string& name) const {
    if (name == "run") return run_;
    if (name == "test") return test_;
    if (name == "zoo") return zoo_;
    if (name == "explore") return explore_;
    if (name == "replay") return replay_;
    if (name == "check") return check_;
    if (name == "diff") return diff_;
    if (name == "bisect") return bisect_;
    if (name == "export") return export_;
    if (name == "analyze") return analyze_;
    if (name == "sampler") return sampler_;
    if (name == "nccl-log") return nccl_log_;
    if (name == "crosscheck") return crosscheck_;
    if (name == "launch") return launch_;
    if (name == "rank") return rank_;
    return LawsArguments{};
  }

  CLI::App app_{"Runs data-parallel training jobs as virtual ranks and checks the laws of DDP"};
  RunArguments run_;
  TestArguments test_;
  ZooArguments zoo_;
  ExploreArguments explore_;
  ReplayArguments replay_;
  CheckArguments check_;
  DiffArguments diff_;
  BisectArguments bisect_;
  ExportArguments export_;
  AnalyzeArguments analyze_;
  SamplerArguments sampler_;
  NcclLogArguments nccl_log_;
  CrosscheckArguments crosscheck_;
  LaunchArguments launch_;
  RankArguments rank_;
};

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  return Grammar().parse(argc, argv);
}

}  // namespace lockstep::cli
