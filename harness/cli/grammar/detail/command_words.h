// How a command describes its words: each option that takes a value has a name for the value and
// says what holds without it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lockstep/harness/cli/grammar/help_page.h"

namespace lockstep::cli {

/// Adds the words of one command to the parser and to the command's help page.
///
///   CommandWords words(app, page, "Runs a scenario and checks the laws");
///   words.argument("SCENARIO", to.file, "Scenario file (TOML)");
///   words.option("--timeout", to.timeout_s, "SECONDS", "Deadline of each operation");
///   words.example("Run a scenario", "lockstep run hello.toml");
///
/// Values are texts, numbers and optional numbers; command_words.cc lists their types.
class CommandWords {
 public:
  /// `app` and `page` are the command's own and outlive this.
  CommandWords(CLI::App& app, HelpPage& page, const std::string& summary);

  /// A word named by its place. A vector takes one or more.
  void argument(const std::string& name, std::string& to, const std::string& text);
  CLI::Option& argument(const std::string& name,
                        std::vector<std::string>& to,
                        const std::string& text);
  /// The same, where the command has a meaning without it.
  CLI::Option& optional_argument(const std::string& name, std::string& to, const std::string& text);

  /// An option with a value: `value` names it ("FILE", "SEED"), and `without` says what holds when
  /// it is not given. Left out, that is what `to` holds now.
  /// Requires: something to show as the default.
  template <typename T>
  CLI::Option& option(const std::string& names,
                      T& to,
                      const std::string& value,
                      const std::string& text,
                      const std::string& without = {});

  /// An option that may be given several times.
  void list(const std::string& names,
            std::vector<std::string>& to,
            const std::string& value,
            const std::string& text,
            const std::string& without = "none");

  /// An option that every command line has.
  template <typename T>
  void required(const std::string& names, T& to, const std::string& value, const std::string& text);

  /// An option without a value. "!--name" switches `to` off.
  CLI::Option& flag(const std::string& names, bool& to, const std::string& text);

  /// Options that only Lockstep itself gives: no page shows them.
  CLI::Option& hidden(const std::string& names, std::string& to);
  void hidden(const std::string& names, bool& to);

  void example(const std::string& purpose, const std::string& line);

  /// What follows the options: "-- PROGRAM [ARGUMENT...]".
  void tail(const std::string& text) { page_->tail = text; }

 private:
  void add_row(const std::string& names,
               const std::string& value,
               const std::string& text,
               const std::string& remark);

  CLI::App* app_;
  HelpPage* page_;
};

}  // namespace lockstep::cli
