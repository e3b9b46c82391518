// What `lockstep COMMAND --help` prints.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// A row of a help page: a name, and what it means.
struct HelpRow {
  std::string name;
  std::string text;
};

/// One line that a user can type, and what it is good for.
struct Example {
  std::string purpose;  ///< "Run one variant of a scenario"
  std::string line;     ///< "lockstep run hello.toml --variant broken"
};

struct HelpPage {
  std::string summary;  ///< "Runs a scenario and checks the laws"
  std::string usage;    ///< "lockstep run SCENARIO": what must be given.
  std::string tail;     ///< What follows the options: "-- PROGRAM [ARGUMENT...]".
  std::vector<HelpRow> arguments;
  std::vector<HelpRow> options;
  std::vector<HelpRow> commands;  ///< Of the page of `lockstep` itself.
  std::vector<Example> examples;
  std::string footer;
};

/// The page as text, at most 100 columns wide.
std::string render(const HelpPage& page);

}  // namespace lockstep::cli
