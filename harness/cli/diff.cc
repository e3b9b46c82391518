// `lockstep diff`: where two traces, or two files of tensors, begin to differ.
#include <filesystem>

#include "lockstep/compare/first_difference.h"
#include "lockstep/compare/state_difference.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/formats/state_file.h"
#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {
namespace {

ExitCode diff_states(const DiffArguments& arguments, Terminal& terminal) {
  const Result<StateFile> left = read_state(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<StateFile> right = read_state(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  if (const auto difference = first_state_difference(left.value(), right.value())) {
    terminal.out << "first difference: " << difference->text << "\n";
    return ExitCode::kFindings;
  }
  terminal.out << "equal: " << left.value().tensors.size() << " tensors\n";
  return ExitCode::kOk;
}

}  // namespace

ExitCode diff(const DiffArguments& arguments, Terminal& terminal) {
  const bool left_is_file = std::filesystem::is_regular_file(arguments.left);
  const bool right_is_file = std::filesystem::is_regular_file(arguments.right);
  if (left_is_file && right_is_file) return diff_states(arguments, terminal);
  if (left_is_file || right_is_file) {
    return bad_input(
        terminal,
        "lockstep diff: compares two trace folders or two files of tensors, not one of "
        "each");
  }
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
