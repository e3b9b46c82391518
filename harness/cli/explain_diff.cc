// `lockstep explain-diff`: whether two results differ by rounding or by a bug.
#include <utility>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/rounding/explain_results.h"
#include "lockstep/harness/rounding/result_file.h"

namespace lockstep::cli {

ExitCode explain_diff(const ExplainDiffArguments& arguments, Terminal& terminal) {
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
  const ResultKind reduction = arguments.mean ? ResultKind::kMean : ResultKind::kSum;
  const Result<Explanation> explanation =
      explain_results(left.value(), right.value(), contributions, reduction);
  if (!explanation.ok()) {
    return bad_input(terminal, "lockstep explain-diff: " + explanation.error().text());
  }
  if (arguments.json) {
    JsonText out;
    write_explanation(out, explanation.value());
    terminal.out << out.str() << "\n";
  } else {
    terminal.out << explanation_text(explanation.value());
  }
  const RoundingVerdict verdict = explanation.value().verdict();
  return verdict <= RoundingVerdict::kWithinBound ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
