// `lockstep explain`: what a likely cause is, and the lines that bring it about and repair it.
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/causes.h"

namespace lockstep::cli {
namespace {

void print_lines(std::string_view title, std::string_view lines, Terminal& terminal) {
  terminal.out << "\n" << title << "\n";
  for (const std::string_view line : split(lines, '\n')) {
    terminal.out << "    " << line << "\n";
  }
}

/// A job of which `lockstep certify` shows what this cause makes of the weights; empty: it concerns
/// no weights.
std::string_view shown_by_certificate(Cause cause) {
  switch (cause) {
    case Cause::kDoubleAverage:
      return "scenarios/averages/sum_averaged_again.toml";
    case Cause::kLastMicroUnsynced:
      return "scenarios/zoo/last_micro_unsynced.toml";
    case Cause::kPartialWindow:
      return "scenarios/zoo/partial_window.toml";
    case Cause::kSumVsMean:
      return "scenarios/zoo/sum_vs_mean.toml";
    case Cause::kTokenWeightedMean:
      return "scenarios/averages/tokens_per_rank.toml";
    default:
      return {};
  }
}

}  // namespace

ExitCode explain(const ExplainArguments& arguments, Terminal& terminal) {
  if (arguments.cause.empty()) {
    for (const CauseInfo& info : all_causes()) terminal.out << info.id << "\n";
    return ExitCode::kOk;
  }
  const std::optional<Cause> cause = parse_cause(arguments.cause);
  if (!cause) {
    std::vector<std::string_view> ids;
    for (const CauseInfo& info : all_causes()) ids.push_back(info.id);
    return bad_input(terminal,
                     "lockstep explain: unknown cause '" + arguments.cause + "'" +
                         alternatives(arguments.cause, ids, "the causes are"));
  }
  const CauseInfo& info = describe(*cause);
  const CauseExample& example = example_of(*cause);
  terminal.out << info.id << "\n\n" << info.sentence << "\n\nRemedy:   " << info.remedy << "\n";
  print_lines("Lines that cause it:", example.breaks, terminal);
  print_lines("Lines that repair it:", example.repairs, terminal);
  const std::string_view job = shown_by_certificate(*cause);
  if (!job.empty()) {
    terminal.out << "\nWeights:  `lockstep certify " << job
                 << "` shows what it makes of them (docs/certify.md)\n";
  }
  terminal.out << "\nRead on:  " << info.page << "\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
