#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

/// Commands of the plan that this build does not have: named, so that asking for one is no typo.
constexpr std::array<std::string_view, 5> kLater = {
    "explore", "crosscheck", "zoo", "launch", "analyze"};

/// The grammar, with every option bound to a field of the argument structs.
class Grammar {
 public:
  Grammar() {
    app_.name("lockstep");
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
    add_run();
    add_test();
    add_replay();
    add_check();
    add_export();
    add_diff();
    app_.add_subcommand("laws", "Prints the numbered contract");
    add_sampler();
    for (CLI::App* command : commands()) command->allow_extras();
  }

  Command parse(int argc, const char* const* argv) {
    if (argc < 2) return Information{app_.help()};
    if (auto error = unknown_command(argv[1])) return *error;
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
  std::vector<CLI::App*> commands() {
    return app_.get_subcommands([](CLI::App*) { return true; });
  }

  void add_run() {
    CLI::App* command = app_.add_subcommand("run", "Runs a scenario and checks the laws");
    command->add_option("scenario", run_.file, "The scenario file")->required();
    command->add_option("--variant", run_.variant, "One of the file's variants");
    command->add_option("--backend", run_.backend, "sim");
    command->add_option("--schedule-seed", run_.schedule_seed, "Random schedule with this seed");
    command->add_option("--set", run_.settings, "key=value: changes the scenario")
        ->expected(1)
        ->take_all();
    command->add_option("--trace", run_.trace, "Writes the events of each rank into this folder");
    command->add_option("--report", run_.report, "Writes FILE.json or FILE.xml (JUnit)");
    command->add_option("--repro", run_.repro, "Writes a file for `lockstep replay` on findings");
    command->add_flag("--values", run_.values, "Records values, not only digests");
    command->add_flag("--twice", run_.twice, "Runs again at other addresses; digests must agree");
    command->add_flag("--quiet", run_.quiet, "Prints nothing but errors");
  }

  void add_test() {
    CLI::App* command = app_.add_subcommand(
        "test", "Runs every variant; succeeds when each meets its expectations");
    command->add_option("scenarios", test_.files, "Scenario files")->required();
  }

  void add_replay() {
    CLI::App* command = app_.add_subcommand("replay", "Repeats a run from its reproduction file");
    command->add_option("reproduction", replay_.file, "A file that `run` wrote")->required();
    command->add_flag("--quiet", replay_.quiet, "Prints nothing but errors");
  }

  void add_check() {
    CLI::App* command = app_.add_subcommand("check", "Checks the laws on recorded traces");
    command->add_option("folders", check_.folders, "Trace folders")->required();
    command->add_option("--law", check_.laws, "Only this law")->expected(1)->take_all();
    command->add_option("--allow", check_.allow, "LAW or LAW@TENSOR: exempt on purpose")
        ->expected(1)
        ->take_all();
    command->add_flag("--json", check_.json, "Prints the report as JSON");
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

  std::optional<UsageError> unknown_command(std::string_view word) {
    if (!word.empty() && word.front() == '-') return unknown_option(app_, std::string(word));
    std::vector<std::string> names;
    for (const CLI::App* command : commands()) names.push_back(command->get_name());
    if (std::find(names.begin(), names.end(), word) != names.end()) return std::nullopt;
    if (std::find(kLater.begin(), kLater.end(), word) != kLater.end()) {
      return UsageError{"lockstep: command '" + std::string(word) + "' is not supported yet"};
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string guess = did_you_mean(word, known);
    return UsageError{"lockstep: unknown command '" + std::string(word) + "'" +
                      (guess.empty() ? "; the commands are " + join(names) : guess)};
  }

  /// Words that no option took: the first one that looks like an option is the typo.
  static std::optional<UsageError> leftover(const CLI::App& command) {
    const std::vector<std::string> extra = command.remaining();
    if (extra.empty()) return std::nullopt;
    for (const std::string& word : extra) {
      if (!word.empty() && word.front() == '-') return unknown_option(command, word);
    }
    return UsageError{"lockstep " + command.get_name() + ": unexpected argument '" + extra.front() +
                      "'"};
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
    if (name == "replay") return replay_;
    if (name == "check") return check_;
    if (name == "diff") return diff_;
    if (name == "export") return export_;
    if (name == "sampler") return sampler_;
    return LawsArguments{};
  }

  CLI::App app_{"Runs data-parallel training jobs as virtual ranks and checks the laws of DDP"};
  RunArguments run_;
  TestArguments test_;
  ReplayArguments replay_;
  CheckArguments check_;
  DiffArguments diff_;
  ExportArguments export_;
  SamplerArguments sampler_;
};

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  return Grammar().parse(argc, argv);
}

}  // namespace lockstep::cli
