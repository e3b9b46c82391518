// Words of the commands that take a scenario.
#include <CLI/CLI.hpp>

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/grammar/detail/grammar.h"
#include "lockstep/harness/whatif/what_if.h"

namespace lockstep::cli {
namespace {

constexpr const char* kReportText = "Writes a report: FILE.html, FILE.json or FILE.xml (JUnit)";

/// What chooses a scenario, in every command that runs one.
template <typename Arguments>
void add_scenario(CommandWords& words, Arguments& to) {
  words.option("--variant", to.variant, "NAME", "Variant to run", "the file's base");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario, such as loop.steps=3",
             "as the file says");
}

/// What makes a command do a share of its work.
template <typename Arguments>
CLI::Option& add_shard(CommandWords& words, Arguments& to) {
  CLI::Option& shard = words.option(
      "--shard", to.shard, "I/N", "Runs shard I of N, for `lockstep merge`", "all of it");
  CLI::Option& part =
      words.option("--part", to.part, "FILE", "With --shard: file for the shard's results", "none");
  shard.needs(&part);
  part.needs(&shard);
  return shard;
}

/// Options of `explore` without a scenario.
void add_random_jobs(CommandWords& words, ExploreArguments& to, CLI::Option& file) {
  words
      .option("--jobs",
              to.jobs,
              "N",
              "Number of random jobs; with SCENARIO, another name of --threads",
              "1000 without SCENARIO, 1 with it")
      .check(from_one_to(1000 * kMany));
  words.option("--first", to.first, "N", "Without SCENARIO: first random job").excludes(&file);
  words.option("--seed", to.seed, "SEED", "Without SCENARIO: seed of the random jobs")
      .excludes(&file);
  words
      .option(
          "--thorough-every",
          to.thorough_every,
          "N",
          "Without SCENARIO: also checks every Nth job with the laws that repeat a run; 0: none")
      .excludes(&file);
}

}  // namespace

CLI::Validator from_one_to(std::int64_t most) {
  const auto complaint = [most](const std::string& text) {
    const std::optional<std::int64_t> number = parse_int(text);
    if (number && *number >= 1 && *number <= most) return std::string();
    return "'" + text + "' is not a number from 1 to " + std::to_string(most);
  };
  return CLI::Validator(complaint, "");
}

void add_words(CLI::App& app, HelpPage& page, RunArguments& to) {
  CommandWords words(app, page, "Runs a scenario and checks the laws.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  add_scenario(words, to);
  words.option(
      "--backend",
      to.backend,
      "BACKEND",
      "Where ranks run: sim (virtual ranks in this process), gloo or nccl (one process per "
      "rank)");
  words.option("--nproc", to.nproc, "N", "Number of ranks", "the scenario's")
      .check(from_one_to(kMany));
  words
      .option("--timeout",
              to.timeout_s,
              "SECONDS",
              "Real ranks: deadline for connecting and for each operation")
      .check(from_one_to(kMany));
  words.flag("--check-arrivals",
             to.check_arrivals,
             "Real ranks: compares what arrives with what was sent, in every operation");
  words.option("--schedule-seed",
               to.schedule_seed,
               "SEED",
               "Runs a random schedule with this seed",
               "the scenario's schedule");
  words.option("--trace", to.trace, "DIR", "Writes each rank's events into this folder", "none");
  words.option("--report", to.report, "FILE", kReportText, "none");
  words.option("--repro",
               to.repro,
               "FILE",
               "On findings, writes a file for `lockstep replay`",
               "repro.toml in the folder of --trace");
  words.flag("--values", to.values, "Records tensor values in the trace, not only their digests");
  words.flag("--laws", to.laws, kLawsText);
  words.flag("--twice", to.twice, "Runs again at other memory addresses; digests must be equal");
  words.flag("--quiet", to.quiet, "Prints only errors");
  words.example("Run a scenario",
                "lockstep run scenarios/lessons/weights_2_and_200.toml --variant after_wrapping");
  words.example("Try another schedule and write a web page",
                "lockstep run scenarios/healthy/any_schedule.toml --schedule-seed 7 --report "
                "report.html");
}

void add_words(CLI::App& app, HelpPage& page, TestArguments& to) {
  CommandWords words(
      app, page, "Runs every variant of scenarios and compares each with what it expects.");
  words.argument("SCENARIO", to.files, "Scenario files (TOML)");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value in every variant of every file, such as sim.strategy=random",
             "as the files say");
  words.option("--report", to.report, "FILE", kReportText, "none");
  words.flag("--laws", to.laws, kLawsText);
  words.example("Test one file", "lockstep test scenarios/lessons/weights_2_and_200.toml");
  words.example("Test all files of a folder, for a build server",
                "lockstep test scenarios/lessons/*.toml --report results.xml");
  words.example("See whether what a file expects holds in a random schedule, too",
                "lockstep test scenarios/zoo/bypass_wrapper.toml --set sim.strategy=random");
}

void add_words(CLI::App& app, HelpPage& page, ZooArguments& to) {
  CommandWords words(app,
                     page,
                     "Runs all known bugs, their repairs and healthy look-alikes, and prints which "
                     "are caught.");
  words.optional_argument(
      "DIR", to.folder, "Folder of scenarios to run [default: the project's own]");
  CLI::Option& json = words.flag("--json", to.json, "Prints the scoreboard as JSON");
  add_shard(words, to).excludes(&json);
  words.example("Print the scoreboard", "lockstep zoo");
  words.example("Use scenarios of your own", "lockstep zoo scenarios/faults --json");
  words.example("Run the first of two halves, for `lockstep merge`",
                "lockstep zoo --shard 1/2 --part zoo-1.jsonl");
}

void add_words(CLI::App& app, HelpPage& page, ExploreArguments& to) {
  CommandWords words(
      app,
      page,
      "Tries other schedules and seeds of a scenario and shrinks what fails; without "
      "a scenario, runs random correct jobs.");
  CLI::Option& file = words.optional_argument(
      "SCENARIO", to.file, "Scenario file (TOML); without it, random jobs are run");
  words.option("--variant", to.variant, "NAME", "Variant to explore", "the file's base")
      .needs(&file);
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario or of every random job",
             "no change");
  words.option("--runs", to.runs, "N", "Largest number of runs")
      .needs(&file)
      ->check(from_one_to(kMany));
  words.option("--strategy", to.strategy, "STRATEGY", "random, pct:depth=3, uniform or exhaustive")
      .needs(&file);
  words.option("--seeds", to.seeds, "N", "Number of job seeds to cycle through")
      .needs(&file)
      ->check(from_one_to(kMany));
  words.flag(
      "--vary", to.vary, "Also makes small changes: ranks, rows, steps, buckets, summation orders");
  CLI::Option& json = words.flag("--json", to.json, "Prints JSON");
  json.needs(&file);
  add_random_jobs(words, to, file);
  words.option("-j,--threads", to.threads, "N", "Runs at the same time, one thread each")
      .check(from_one_to(kMostThreads));
  words.option("--out", to.out, "DIR", "Folder for what fails");
  words.option("--regressions",
               to.regressions,
               "DIR",
               "Folder of kept failures, which are tried first",
               "regressions in the folder of --out");
  add_shard(words, to).excludes(&json);
  words.example("Search for a schedule that fails",
                "lockstep explore scenarios/healthy/any_schedule.toml --runs 200 --threads 2");
  words.example("Run 500 random correct jobs: each finding is a false alarm",
                "lockstep explore --jobs 500 --seed 7");
  words.example(
      "Make the second eighth of a search, for `lockstep merge`",
      "lockstep explore scenarios/healthy/any_schedule.toml --runs 200 --shard 2/8 --part "
      "part-2.jsonl");
}

void add_words(CLI::App& app, HelpPage& page, MergeArguments& to) {
  CommandWords words(
      app, page, "Merges the parts that the shards of `lockstep explore` or `lockstep zoo` wrote.");
  words.argument("PART", to.parts, "The --part files of all shards of one run");
  words.flag("--json", to.json, "Prints JSON, where the sharded command supports it");
  words.option("--out", to.out, "DIR", "Folder for what fails");
  words.option("--regressions",
               to.regressions,
               "DIR",
               "Folder for kept failures",
               "regressions in the folder of --out");
  for (const char* half : {"1", "2"}) {
    words.example("Make half " + std::string(half) + " of a search",
                  "lockstep explore scenarios/healthy/any_schedule.toml --runs 20 --shard " +
                      std::string(half) + "/2 --part part-" + half + ".jsonl");
  }
  words.example("Put the halves together", "lockstep merge part-1.jsonl part-2.jsonl");
}

void add_words(CLI::App& app, HelpPage& page, ReplayArguments& to) {
  CommandWords words(
      app, page, "Repeats a recorded failure and checks that it is the same, event for event.");
  words.argument(
      "FILE", to.file, "Reproduction written by `lockstep run --repro` or `lockstep explore`");
  words.flag("--laws", to.laws, kLawsText);
  words.flag("--quiet", to.quiet, "Prints only errors");
  words.example("Keep a failure",
                "lockstep run scenarios/zoo/bypass_wrapper.toml --quiet --repro repro.toml");
  words.example("Repeat it", "lockstep replay repro.toml");
}

void add_words(CLI::App& app, HelpPage& page, AnalyzeArguments& to) {
  CommandWords words(app,
                     page,
                     "Measures how much results depend on summation order, in units in the last "
                     "place per tensor.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  add_scenario(words, to);
  words.flag("--json", to.json, "Prints JSON");
  words.example("Measure a job",
                "lockstep analyze scenarios/zoo/token_weighted_mean.toml --variant fixed");
}

void add_words(CLI::App& app, HelpPage& page, CertifyArguments& to) {
  CommandWords words(
      app,
      page,
      "Says whether each step uses the gradient that one process would use, or which "
      "factor is wrong.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML) with a job");
  add_scenario(words, to);
  words.option("--objective",
               to.objective,
               "OBJECTIVE",
               "sample-mean, token-mean, sum, rank-mean, or one weight per rank: 1/4,3/4",
               "the scenario's loss.declared");
  words.example("Certify a job", "lockstep certify scenarios/averages/tokens_per_rank.toml");
  words.example("Certify its repair, and by another objective",
                "lockstep certify scenarios/averages/tokens_per_rank.toml --variant fixed "
                "--objective token-mean");
}

void add_words(CLI::App& app, HelpPage& page, WhatIfArguments& to) {
  CommandWords words(
      app, page, "Measures what a step would cost under other settings, in virtual time.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML) with a job");
  add_scenario(words, to);
  words.list("--sweep",
             to.sweep,
             "KEY=VALUE,...",
             "Values of a key to try, in every combination with the other keys",
             std::string(kUsualBucketCaps));
  words.list("--calibrate",
             to.calibrate,
             "PATH",
             "Trace folder of a real run, or nccl-tests output, to which link and compute costs "
             "are fitted",
             "the scenario's sim.link and sim.compute");
  words.flag("--json", to.json, "Prints JSON");
  words.example("Which bucket size makes the shortest step",
                "lockstep whatif scenarios/lessons/bucket_size.toml");
  words.example("Nodes and stragglers",
                "lockstep whatif scenarios/lessons/bucket_size.toml --sweep "
                "'sim.compute.slow=[],[{ranks=[1],factor=2.0}]' --sweep ddp.bucket_cap_mb=1,25");
}

}  // namespace lockstep::cli
