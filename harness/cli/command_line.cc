#include "lockstep/harness/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/grammar/detail/grammar.h"

namespace lockstep::cli {
namespace {

/// The command that launchers start; no page lists it.
constexpr std::string_view kHiddenCommand = "rank";

constexpr const char* kFooter =
    "Exit codes: 0 all laws hold, 1 findings, 2 bad input or usage, 3 a real run failed,\n"
    "70 a bug in Lockstep. `lockstep help COMMAND` prints the options and examples of a command.";

/// What every command is given: options are bound to these fields.
struct CommandArguments {
  RunArguments run;
  TestArguments test;
  ZooArguments zoo;
  ExploreArguments explore;
  MergeArguments merge;
  ReplayArguments replay;
  CheckArguments check;
  DiffArguments diff;
  ExplainDiffArguments explain_diff;
  BisectArguments bisect;
  ExportArguments export_trace;
  AnalyzeArguments analyze;
  CertifyArguments certify;
  WhatIfArguments whatif;
  LawsArguments laws;
  ExplainArguments explain;
  SamplerArguments sampler;
  NcclLogArguments nccl_log;
  CrosscheckArguments crosscheck;
  LaunchArguments launch;
  RankArguments rank;
  HelpArguments help;
};

/// The grammar, with every option bound to a field of the argument structs.
class Grammar {
 public:
  Grammar() {
    app_.name("lockstep");
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
    front_.summary =
        "Runs data-parallel training jobs as virtual ranks and checks the laws of DDP.";
    front_.usage = "lockstep COMMAND";
    front_.options = {{"--version", "Prints the version"}, {"-h, --help", "Prints this page"}};
    front_.footer = kFooter;
    add("run", to_.run);
    add("test", to_.test);
    add("zoo", to_.zoo);
    add("explore", to_.explore);
    add("merge", to_.merge);
    add("replay", to_.replay);
    add("check", to_.check);
    add("diff", to_.diff);
    add("explain-diff", to_.explain_diff);
    add("bisect", to_.bisect);
    add("export", to_.export_trace);
    add("analyze", to_.analyze);
    add("certify", to_.certify);
    add("whatif", to_.whatif);
    add("laws", to_.laws);
    add("explain", to_.explain);
    add("sampler", to_.sampler);
    add("nccl-log", to_.nccl_log);
    add("crosscheck", to_.crosscheck);
    add("launch", to_.launch);
    add("rank", to_.rank);
    add("help", to_.help);
  }

  Command parse(int argc, const char* const* argv) {
    if (argc < 2) return Information{render(front_)};
    if (auto error = unknown_command("lockstep", argv[1])) return *error;
    if (std::string_view(argv[1]) == "launch") argc = take_program(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      const auto chosen = app_.get_subcommands();
      return Information{chosen.empty() ? render(front_) : page(chosen.front()->get_name())};
    } catch (const CLI::CallForVersion& version) {
      return Information{std::string(version.what()) + "\n"};
    } catch (const CLI::ConversionError& error) {
      return UsageError{prefix() + not_a_number(error.what())};
    } catch (const CLI::ArgumentMismatch& error) {
      return UsageError{prefix() + without_value(error.what())};
    } catch (const CLI::ExcludesError& error) {
      return UsageError{prefix() + excluded(error.what())};
    } catch (const CLI::ParseError& error) {
      return UsageError{prefix() + sentence(error.what())};
    }
    CLI::App& command = *app_.get_subcommands().front();
    const bool launches = command.get_name() == "launch";
    if (auto error = launches ? leftover_of_launch(command) : leftover(command)) return *error;
    if (command.get_name() == "help") return help();
    if (auto error = given_twice()) return *error;
    return chosen(command.get_name());
  }

 private:
  template <typename Arguments>
  void add(const std::string& name, Arguments& to) {
    CLI::App* command = app_.add_subcommand(name);
    command->allow_extras();
    HelpPage& page = pages_[name];
    add_words(*command, page, to);
    if (name == kHiddenCommand) return;
    front_.commands.push_back({name, page.summary.substr(0, page.summary.size() - 1)});
  }

  std::string page(const std::string& command) const { return render(pages_.at(command)); }

  /// `lockstep help` and `lockstep help COMMAND`.
  Command help() const {
    if (to_.help.command.empty()) return Information{render(front_)};
    if (auto error = unknown_command("lockstep help", to_.help.command)) return *error;
    return Information{page(to_.help.command)};
  }

  /// Everything after the first "--" is the program's own, or a script's that stands before it.
  /// Returns how many words are left.
  int take_program(int argc, const char* const* argv) {
    for (int i = 2; i < argc; ++i) {
      if (std::string_view(argv[i]) != "--") continue;
      after_dashes_.assign(argv + i, argv + argc);
      return i;
    }
    return argc;
  }

  std::optional<UsageError> unknown_command(const std::string& asker, std::string_view word) const {
    if (!word.empty() && word.front() == '-') return unknown_option(app_, std::string(word));
    if (pages_.contains(std::string(word))) return std::nullopt;
    std::vector<std::string> shown;
    for (const HelpRow& row : front_.commands) shown.push_back(row.name);
    const std::vector<std::string_view> known(shown.begin(), shown.end());
    const std::string guess = did_you_mean(word, known);
    return UsageError{asker + ": unknown command '" + std::string(word) + "'" +
                      (guess.empty() ? "; the commands are " + join(shown) : guess)};
  }

  /// With a scenario, --jobs and --threads say the same.
  std::optional<UsageError> given_twice() const {
    if (to_.explore.file.empty() || !to_.explore.jobs || to_.explore.threads == 1)
      return std::nullopt;
    return UsageError{
        "lockstep explore: with a scenario, --jobs is another name of --threads; give only one of "
        "them"};
  }

  /// What `launch` starts: words that no option took are a script and its arguments.
  std::optional<UsageError> leftover_of_launch(const CLI::App& command) {
    std::vector<std::string> extra = command.remaining();
    if (!extra.empty() && extra.front().starts_with('-')) {
      if (auto error = unknown_option(command, extra.front())) return error;
    }
    torchrun::Program& program = to_.launch.program;
    program.after_dashes = extra.empty();
    // As Python's argparse, which torchrun uses: one that follows the script at once is not its own.
    const std::ptrdiff_t dashes = extra.size() <= 1 && !after_dashes_.empty() ? 1 : 0;
    program.words = std::move(extra);
    program.words.insert(program.words.end(), after_dashes_.begin() + dashes, after_dashes_.end());
    return std::nullopt;
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
                      name + "'" + guess(name, known)};
  }

  /// The closest option; or, of a word that was cut short or has another end, one with the same start.
  static std::string guess(const std::string& name, std::span<const std::string_view> known) {
    constexpr std::size_t kLeast = 6;  // "--npro"
    std::string close = did_you_mean(name, known);
    if (!close.empty() || name.size() < kLeast) return close;
    for (const std::string_view option : known) {
      if (option.starts_with(name.substr(0, kLeast))) {
        return "; did you mean '" + std::string(option) + "'?";
      }
    }
    return close;
  }

  std::string prefix() {
    const auto chosen = app_.get_subcommands();
    return chosen.empty() ? "lockstep: " : "lockstep " + chosen.front()->get_name() + ": ";
  }

  /// Of two options that do not go together.
  static std::string excluded(std::string_view text) {
    return text.find("--shard") != std::string_view::npos
               ? "a shard prints no JSON; `lockstep merge --json` does"
               : "--first, --seed and --thorough-every choose random jobs, which run without a "
                 "SCENARIO";
  }

  /// Of "Could not convert: --seed = many": every option that is not text is a number.
  static std::string not_a_number(const std::string& text) {
    const std::size_t name = text.find(": ");
    const std::size_t value = text.find(" = ");
    if (name == std::string::npos || value == std::string::npos) return sentence(text);
    return text.substr(name + 2, value - name - 2) + ": '" + text.substr(value + 3) +
           "' is not a number that fits";
  }

  /// Of "--variant: 1 required NAME missing".
  static std::string without_value(const std::string& text) {
    constexpr std::string_view kMiddle = ": 1 required ";
    const std::size_t middle = text.find(kMiddle);
    const std::size_t end = text.find(" missing");
    if (middle == std::string::npos || end == std::string::npos) return sentence(text);
    const std::size_t value = middle + kMiddle.size();
    return text.substr(0, middle) + " needs a value: " + text.substr(value, end - value);
  }

  /// The parser's texts may begin with a capital and end with a full stop. Names of arguments are
  /// in capitals and stay so.
  static std::string sentence(std::string text) {
    const bool is_name = text.size() > 1 && CLI::detail::to_lower(text.substr(1, 1))[0] != text[1];
    if (!text.empty() && !is_name) text.front() = CLI::detail::to_lower(text.substr(0, 1)).front();
    while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
    return text;
  }

  Command chosen(const std::string& name) const {
    const std::map<std::string, Command> all = {
        {"run", to_.run},         {"test", to_.test},           {"zoo", to_.zoo},
        {"explore", to_.explore}, {"merge", to_.merge},         {"replay", to_.replay},
        {"check", to_.check},     {"diff", to_.diff},           {"explain-diff", to_.explain_diff},
        {"bisect", to_.bisect},   {"export", to_.export_trace}, {"analyze", to_.analyze},
        {"certify", to_.certify}, {"whatif", to_.whatif},       {"explain", to_.explain},
        {"sampler", to_.sampler}, {"nccl-log", to_.nccl_log},   {"crosscheck", to_.crosscheck},
        {"launch", to_.launch},   {"rank", to_.rank},
    };
    const auto found = all.find(name);
    return found == all.end() ? Command(to_.laws) : found->second;
  }

  CLI::App app_;
  HelpPage front_;                         ///< Of `lockstep` itself.
  std::map<std::string, HelpPage> pages_;  ///< By command.
  CommandArguments to_;
  std::vector<std::string> after_dashes_;  ///< Of `launch`: from the first "--" on.
};

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  return Grammar().parse(argc, argv);
}

}  // namespace lockstep::cli
