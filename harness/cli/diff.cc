// `lockstep diff`: where two traces begin to differ.
#include "lockstep/compare/first_difference.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {

ExitCode diff(const DiffArguments& arguments, Terminal& terminal) {
  const Result<LoadedTrace> left = read_jsonl(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<LoadedTrace> right = read_jsonl(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  const MemoryTrace& trace = *left.value().trace;
  const auto difference = first_difference(trace, *right.value().trace, Timing::kIgnored);
  if (difference) {
    terminal.out << "first difference: " << difference->text << "\n";
    return ExitCode::kFindings;
  }
  std::size_t n_events = 0;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    n_events += trace.events(static_cast<Rank>(r)).size();
  }
  terminal.out << "equal: " << n_events << " events on " << trace.n_ranks() << " ranks\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
