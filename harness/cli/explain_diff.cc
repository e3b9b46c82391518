// `lockstep explain-diff`: whether two results differ by rounding or by a bug.
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "lockstep/formats/json_text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/rounding/explain_results.h"
#include "lockstep/harness/rounding/explain_traces.h"
#include "lockstep/harness/rounding/growth.h"
#include "lockstep/harness/rounding/result_file.h"
#include "lockstep/harness/rounding/series_files.h"

namespace lockstep::cli {

namespace {

/// What was asked for; absent: nothing, which is a sum of files, and of traces what fits.
Result<std::optional<Combination>> reduction_of(const ExplainDiffArguments& arguments) {
  if (!arguments.factor) {
    if (!arguments.mean) return std::optional<Combination>();
    return std::optional(Combination{.kind = ResultKind::kMean});
  }
  if (arguments.mean) return Error{"a mean has its factor: give one of both", "--mean, --factor"};
  if (!std::isfinite(*arguments.factor) || *arguments.factor == 0.0) {
    return Error{"a factor is a number other than 0", "--factor"};
  }
  return std::optional(Combination{.kind = ResultKind::kScaledSum, .given = *arguments.factor});
}

ExitCode exit_code_of(RoundingVerdict verdict) {
  return verdict <= RoundingVerdict::kWithinBound ? ExitCode::kOk : ExitCode::kFindings;
}

/// Prints either as text or as JSON.
template <typename Explanation, typename Text, typename Write>
void print(const ExplainDiffArguments& arguments,
           Terminal& terminal,
           const Explanation& explanation,
           Text text,
           Write write) {
  if (!arguments.json) {
    terminal.out << text(explanation);
    return;
  }
  JsonText out;
  write(out, explanation);
  terminal.out << out.str() << "\n";
}

ExitCode explain_files(const ExplainDiffArguments& arguments,
                       const std::optional<Combination>& reduction,
                       Terminal& terminal) {
  const Result<std::vector<StoredTensor>> left = read_results(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<std::vector<StoredTensor>> right = read_results(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  std::vector<std::vector<StoredTensor>> contributions;
  for (const std::string& path : arguments.contributions) {
    Result<std::vector<StoredTensor>> part = read_results(path);
    if (!part.ok()) return bad_input(terminal, part.error().text());
    contributions.push_back(std::move(part).value());
  }
  const Result<Explanation> explanation = explain_results(
      left.value(), right.value(), contributions, reduction.value_or(Combination{}));
  if (!explanation.ok()) {
    return bad_input(terminal, "lockstep explain-diff: " + explanation.error().text());
  }
  print(arguments, terminal, explanation.value(), explanation_text, write_explanation);
  return exit_code_of(explanation.value().verdict());
}

ExitCode explain_traces(const ExplainDiffArguments& arguments,
                        const std::optional<Combination>& reduction,
                        Terminal& terminal) {
  const Result<LoadedTrace> left = read_jsonl(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<LoadedTrace> right = read_jsonl(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  const TracesExplanation explanation =
      lockstep::explain_traces(*left.value().trace, *right.value().trace, reduction);
  print(arguments, terminal, explanation, traces_text, write_traces);
  return exit_code_of(explanation.verdict);
}

ExitCode explain_series(const ExplainDiffArguments& arguments, Terminal& terminal) {
  Result<std::vector<SeriesStep>> steps = compare_series(arguments.left, arguments.right);
  if (!steps.ok()) return bad_input(terminal, steps.error().text());
  const Growth growth = growth_of(std::move(steps).value());
  print(arguments, terminal, growth, growth_text, [](JsonText& out, const Growth& found) {
    out.open_object().key("lockstep_explain_diff").integer(1).key("growth");
    write_growth(out, found);
    out.close_object();
  });
  return growth.verdict <= GrowthVerdict::kGrowth ? ExitCode::kOk : ExitCode::kFindings;
}

bool is_trace(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".jsonl") return true;
  }
  return false;
}

}  // namespace

ExitCode explain_diff(const ExplainDiffArguments& arguments, Terminal& terminal) {
  const auto reduction = reduction_of(arguments);
  if (!reduction.ok()) return bad_input(terminal, reduction.error().text());
  const bool left_is_folder = std::filesystem::is_directory(arguments.left);
  const bool right_is_folder = std::filesystem::is_directory(arguments.right);
  if (!left_is_folder && !right_is_folder) {
    return explain_files(arguments, reduction.value(), terminal);
  }
  if (left_is_folder != right_is_folder) {
    return bad_input(terminal,
                     "lockstep explain-diff: compares two folders or two files, not one of each");
  }
  if (!arguments.contributions.empty()) {
    return bad_input(terminal,
                     "lockstep explain-diff: --contributions belong to two files: traces have "
                     "their own, and a series has none");
  }
  if (is_trace(arguments.left) || is_trace(arguments.right)) {
    return explain_traces(arguments, reduction.value(), terminal);
  }
  return explain_series(arguments, terminal);
}

}  // namespace lockstep::cli
