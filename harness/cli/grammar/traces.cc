// Words of the commands that read traces and logs.
#include <CLI/CLI.hpp>

#include "lockstep/harness/cli/grammar/detail/grammar.h"

namespace lockstep::cli {

void add_words(CLI::App& app, HelpPage& page, CheckArguments& to) {
  CommandWords words(app,
                     page,
                     "Checks the laws on recorded traces, or says why a PyTorch job hangs, from "
                     "dumps of its Flight Recorder.");
  words.argument(
      "TRACE", to.folders, "Trace folders; or Flight Recorder dumps, all files of one job");
  words.list("--law", to.laws, "LAW", "Checks only this law", "all laws that traces allow");
  words.list("--allow", to.allow, "LAW[@TENSOR]", "Exempts a law, or one tensor of it");
  words.option("--report",
               to.report,
               "FILE",
               "Writes a report: FILE.html, FILE.json or FILE.xml (JUnit)",
               "none");
  words.flag("--laws", to.all_laws, kLawsText);
  words.flag("--times", to.times, "Prints where the time went: steps, waiting, bandwidths");
  words.flag("--json", to.json, "Prints the report as JSON");
  words.example("Record a run",
                "lockstep run scenarios/zoo/bypass_wrapper.toml --quiet --trace trace");
  words.example("Check one law of it", "lockstep check trace --law replicas-equal");
}

void add_words(CLI::App& app, HelpPage& page, DiffArguments& to) {
  CommandWords words(
      app, page, "Prints the first difference of two traces, or of two files of tensors.");
  words.argument(
      "LEFT", to.left, "Trace folder, or tensor file (.safetensors, torch.save or .npy)");
  words.argument("RIGHT", to.right, "The same kind as LEFT");
  words.flag("--json", to.json, "Prints JSON");
  words.example("Compare two runs", "lockstep diff before after");
  words.example("Compare two state dicts", "lockstep diff model.safetensors checkpoint.pt");
}

void add_words(CLI::App& app, HelpPage& page, ExplainDiffArguments& to) {
  CommandWords words(
      app,
      page,
      "Says whether two results of one reduction, or two runs of one job, differ by rounding or by "
      "a bug.");
  words.argument("FIRST",
                 to.left,
                 "Tensor file (.safetensors, torch.save or .npy), a trace folder, or a folder of "
                 "per-step tensor files");
  words.argument("SECOND", to.right, "The same kind as FIRST");
  words.list("--contributions",
             to.contributions,
             "FILE",
             "Inputs of the reduction, one file per rank, in rank order");
  words.flag("--mean", to.mean, "The results are means of the contributions, not sums");
  words.option("--factor",
               to.factor,
               "FACTOR",
               "What each contribution, or the sum, was multiplied by",
               "1");
  words.flag("--json", to.json, "Prints JSON");
  words.example(
      "Two backends disagree about a gradient",
      "lockstep explain-diff first.npy second.npy --contributions rank0.npy --contributions "
      "rank1.npy");
  words.example("Two runs disagree", "lockstep explain-diff before after");
}

void add_words(CLI::App& app, HelpPage& page, BisectArguments& to) {
  CommandWords words(
      app,
      page,
      "Finds where two traces, or the ranks of one, first differ, and what was equal "
      "before.");
  words.argument("TRACE", to.folders, "One trace folder, or two").expected(1, 2);
  words.example("Compare the ranks of one run", "lockstep bisect trace");
  words.example("Compare two runs", "lockstep bisect before after");
}

void add_words(CLI::App& app, HelpPage& page, ExportArguments& to) {
  CommandWords words(
      app, page, "Writes a trace, or a file of tensors, in a form that other tools read.");
  words.argument("FROM", to.from, "Trace folder, or tensor file (.safetensors or torch.save)");
  words.option("--perfetto",
               to.perfetto,
               "FILE",
               "Writes a trace as a timeline for ui.perfetto.dev (JSON)",
               "none");
  words.option("--flight-recorder",
               to.flight_recorder,
               "DIR",
               "Writes a trace's calls as dumps of PyTorch's Flight Recorder, one per rank",
               "none");
  words.option("--safetensors", to.safetensors, "FILE", "Writes tensors as safetensors", "none");
  words.option(
      "--torch", to.torch, "FILE", "Writes tensors as a state dict that torch.load reads", "none");
  words.example("Write a timeline", "lockstep export trace --perfetto timeline.json");
  words.example("Open calls in PyTorch's viewer", "lockstep export trace --flight-recorder dumps");
  words.example("Convert a state dict",
                "lockstep export checkpoint.pt --safetensors model.safetensors");
}

void add_words(CLI::App& app, HelpPage& page, NcclLogArguments& to) {
  CommandWords words(app,
                     page,
                     "Reads the summation order of a real run from NCCL's log, as a value for "
                     "sim.order.");
  words.argument("LOG", to.files, "Log of rank 0, or the logs of all ranks");
  words.example("Read a log made with NCCL_DEBUG=INFO", "lockstep nccl-log nccl.log");
}

void add_words(CLI::App& app, HelpPage& page, LawsArguments& to) {
  CommandWords words(app, page, "Prints the laws: all of them, or everything about one.");
  words.optional_argument("NAME", to.name, "Name of a law [default: all laws, in short]");
  words.example("List all laws", "lockstep laws");
  words.example("Read about one", "lockstep laws gradient-mean");
}

void add_words(CLI::App& app, HelpPage& page, ExplainArguments& to) {
  CommandWords words(
      app, page, "Explains a likely cause: what it is, and the lines that repair it.");
  words.optional_argument(
      "CAUSE", to.cause, "Id of a cause, as reports name it [default: lists them]");
  words.example("Read about one", "lockstep explain clip-before-unscale");
}

void add_words(CLI::App& app, HelpPage& page, SamplerArguments& to) {
  CommandWords words(app, page, "Prints which samples DistributedSampler gives each rank.");
  words.required("--size", to.size, "N", "Samples in the data set");
  words.required("--replicas", to.replicas, "N", "Number of ranks");
  words.option("--rank", to.rank, "RANK", "Prints only this rank", "all ranks");
  words.option("--epoch", to.epoch, "N", "Epoch, as given to set_epoch");
  words.option("--seed", to.seed, "SEED", "Seed of the shuffle");
  words.flag("!--no-shuffle", to.shuffle, "Keeps the order of the data set");
  words.flag("--drop-last", to.drop_last, "Drops the uneven tail instead of padding it");
  words.example("Deal 10 samples to 4 ranks", "lockstep sampler --size 10 --replicas 4 --epoch 1");
}

void add_words(CLI::App& app, HelpPage& page, HelpArguments& to) {
  CommandWords words(app, page, "Prints the help of a command.");
  words.optional_argument("COMMAND", to.command, "Name of a command [default: list all commands]");
  words.example("Read about `lockstep run`", "lockstep help run");
}

}  // namespace lockstep::cli
