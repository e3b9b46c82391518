#include "lockstep/harness/cli/outcome.h"

#include <algorithm>
#include <map>

#include "lockstep/base/text.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep::cli {
namespace {

std::string values_text(const ValueEvent* event) {
  if (event == nullptr) return "nothing recorded";
  constexpr std::size_t kShown = 8;
  std::vector<std::string> texts;
  for (const double value : event->values) {
    if (texts.size() == kShown) break;
    texts.push_back(exact(value));
  }
  if (event->values.size() > kShown) texts.emplace_back("...");
  return texts.size() == 1 ? texts.front() : "[" + join(texts) + "]";
}

/// "200", or "2 on rank 0, 398 on rank 1" when the ranks differ.
std::string by_rank(const ScenarioResult& result, const ExpectedValue& asked) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(result.session.trace->n_ranks()));
  for (std::int32_t r = 0; r < result.session.trace->n_ranks(); ++r) {
    texts.push_back(values_text(recorded_value(result, asked, static_cast<Rank>(r))));
  }
  const bool equal = std::all_of(
      texts.begin(), texts.end(), [&](const std::string& text) { return text == texts.front(); });
  if (equal) return texts.front() + (texts.size() > 1 ? " on every rank" : "");
  for (std::size_t r = 0; r < texts.size(); ++r) texts[r] += " on rank " + std::to_string(r);
  return join(texts);
}

void print_values(const Scenario& scenario, const ScenarioResult& result, Terminal& terminal) {
  if (result.session.trace == nullptr) return;
  if (!scenario.expect.values.empty()) terminal.out << "\nvalues:\n";
  for (const ExpectedValue& asked : scenario.expect.values) {
    const std::string step = asked.step ? "step " + std::to_string(*asked.step) + "  " : "";
    terminal.out << "  " << step << name_of(asked.event) << "  " << asked.tensor << " = "
                 << by_rank(result, asked) << "\n";
  }
}

void print_metrics(const ScenarioResult& result, Terminal& terminal) {
  if (result.ranks.empty() || result.ranks.front().evals.empty()) return;
  const EvalResult& last = result.ranks.front().evals.back();
  terminal.out << "\nmetric:\n  epoch " << last.epoch << "  metric = " << exact(last.value) << " ("
               << exact(last.numerator) << " / " << exact(last.denominator) << ")\n";
}

}  // namespace

std::string times_lines(const std::optional<RunTimes>& times) {
  return times ? "\n" + times_text(*times) : std::string();
}

TextOptions style(bool all_laws, const Terminal& terminal) {
  return {.color = terminal.color, .laws = all_laws, .laws_option = "--laws"};
}

void print_result(const Scenario& scenario,
                  const ScenarioResult& result,
                  bool all_laws,
                  Terminal& terminal) {
  terminal.out << render_text(result.report, style(all_laws, terminal));
  print_values(scenario, result, terminal);
  print_metrics(result, terminal);
}

void print_error(const Report& report, Terminal& terminal) {
  if (report.outcome != RunOutcome::kError) return;
  terminal.err << "lockstep run: " << report.title << ": " << name_of(report.outcome) << ": "
               << report.error << "\n";
}

RunView view_of(const ScenarioResult& result) {
  RunView view;
  view.report = &result.report;
  view.trace = result.session.trace.get();
  view.wait_for = &result.session.wait_for;
  if (!result.ranks.empty()) view.first_loss_step = result.ranks.front().first_step;
  for (const RankOutcomeValues& rank : result.ranks) view.losses.push_back(rank.losses);
  return view;
}

ExitCode exit_code(const Report& report) {
  return report.ok() && report.n_findings() == 0 ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
