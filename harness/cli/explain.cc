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
  terminal.out << "\nRead on:  " << info.page << "\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
