// `lockstep laws`: the numbered contract.
#include <algorithm>
#include <filesystem>

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/judge.h"
#include "lockstep/harness/cli/own_scenarios.h"
#include "lockstep/harness/companion/relation_laws.h"
#include "lockstep/laws/law.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::string how(std::string_view id) {
  for (const LawInfo& law : trace_laws()) {
    if (law.id != id) continue;
    return law.kind == LawKind::kBoth ? "with companion runs of a scenario, in part on one trace"
                                      : "on one trace";
  }
  for (const std::string_view law : kRelationLaws) {
    if (law == id) return "with companion runs of a scenario";
  }
  return "not yet";
}

void print_all(Terminal& terminal) {
  for (const LawInfo& law : all_laws()) {
    terminal.out << law.number << ". " << law.id;
    if (!law.detector.empty()) terminal.out << " [" << law.detector << "]";
    terminal.out << ", checked " << how(law.id) << "\n   " << law.statement
                 << "\n   Source: " << law.source << "\n   Does not see: " << law.blind_spots
                 << "\n";
  }
}

/// What the law asks for when it has seen nothing.
std::string needs(const LawInfo& law) {
  if (law.id == "single-process-equal")
    return "a scenario that trains a model on two or more ranks";
  if (law.kind == LawKind::kRelation) return "a scenario that names it under 'expect'";
  const Result<std::unique_ptr<Law>> checker = make_law(law.id, {.n_ranks = 2});
  if (!checker.ok()) return {};
  const LawResult idle = checker.value()->finish(NameTable());
  return idle.missing.empty() ? "a trace" : idle.missing;
}

/// What a reader types to see the law broken, with the scenario's title.
struct Broken {
  std::string command;
  std::string title;
};

/// The scenarios of the zoo that expect this law to be broken.
Result<std::vector<Broken>> broken_by(std::string_view id) {
  const Result<std::vector<Scenario>> scenarios = load_all_variants(zoo_files());
  if (!scenarios.ok()) return scenarios.error();
  const fs::path folder(own_scenarios());
  std::vector<Broken> found;
  for (const Scenario& scenario : scenarios.value()) {
    const auto& fires = scenario.expect.fires;
    if (std::none_of(fires.begin(), fires.end(), [&](const auto& one) { return one.law == id; })) {
      continue;
    }
    std::string name = fs::path(scenario.path).lexically_relative(folder).string();
    if (!scenario.variant.empty()) name += " --variant " + scenario.variant;
    found.push_back({name, scenario.title});
  }
  return found;
}

void print_broken(const std::vector<Broken>& scenarios, Terminal& terminal) {
  if (scenarios.empty()) return;
  terminal.out << "\nBroken by these scenarios below " << own_scenarios()
               << " (`lockstep run FILE`):\n";
  for (const Broken& one : scenarios) {
    terminal.out << "  " << one.command << "\n      " << one.title << "\n";
  }
}

ExitCode print_one(const LawInfo& law, Terminal& terminal) {
  const Result<std::vector<Broken>> scenarios = broken_by(law.id);
  if (!scenarios.ok()) return bad_input(terminal, scenarios.error().text());
  terminal.out << law.number << ". " << law.id << "\n\n"
               << law.statement << "\n\nSource:        " << law.source
               << "\nChecked:       " << how(law.id) << "\nNeeds:         " << needs(law)
               << "\nDoes not see:  " << law.blind_spots << "\nRead on:       docs/laws.md, \""
               << law.number << " " << law.id << "\"\n";
  print_broken(scenarios.value(), terminal);
  return ExitCode::kOk;
}

/// Reports print names in capitals; a reader may paste them.
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return text;
}

}  // namespace

ExitCode laws(const LawsArguments& arguments, Terminal& terminal) {
  if (arguments.name.empty()) {
    print_all(terminal);
    return ExitCode::kOk;
  }
  const LawInfo* law = find_law(lower(arguments.name));
  if (law != nullptr) return print_one(*law, terminal);
  return bad_input(terminal, "lockstep laws: " + unknown_law(arguments.name).text());
}

}  // namespace lockstep::cli
