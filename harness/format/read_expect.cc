// expect: what a run of the scenario must show.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

void check_law(const std::string& id, const std::string& where, Problem& problem) {
  if (find_law(id) == nullptr) problem.report(unknown_law(id).message, where);
}

Cause read_cause(TableReader& table, Problem& problem) {
  const std::string id = table.text("cause", "");
  const std::optional<Cause> cause = parse_cause(id);
  if (cause || id.empty()) return cause.value_or(Cause::kNone);
  std::vector<std::string_view> ids;
  for (const CauseInfo& info : all_causes()) ids.push_back(info.id);
  problem.report("unknown cause '" + id + "'" + did_you_mean(id, ids), table.where("cause"));
  return Cause::kNone;
}

ExpectedFinding read_finding(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedFinding finding;
  finding.where = node.where;
  if (!node.is_table()) {
    problem.report("an expected finding is a table: { law = \"replicas-equal\", step = 0 }",
                   node.where);
    return finding;
  }
  TableReader table(node, "expect.fires", problem);
  finding.law = table.text("law", "");
  check_law(finding.law, table.where("law"), problem);
  if (table.has("step")) finding.step = table.integer("step", 0);
  if (table.has("seq")) finding.seq = table.integer("seq", 0);
  finding.tensor = table.text("tensor", "");
  finding.field = table.text("field", "");
  finding.site = table.text("site", "");
  finding.cause = read_cause(table, problem);
  if (const TomlNode* ranks = table.array("ranks")) {
    finding.ranks = ranks_of(*ranks, n_ranks, problem);
  }
  if (const TomlNode* missing = table.array("missing")) {
    finding.missing = ranks_of(*missing, n_ranks, problem);
  }
  finding.weights = table.numbers("weights");
  finding.declared = table.numbers("declared");
  table.finish();
  return finding;
}

ExpectedValue read_value(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedValue value;
  value.where = node.where;
  if (!node.is_table()) {
    problem.report("an expected value is a table: { at = { step = 0, event = \"step\" }, ... }",
                   node.where);
    return value;
  }
  TableReader table(node, "expect.values", problem);
  if (const TomlNode* place = table.table("at")) {
    TableReader at(*place, "expect.values.at", problem);
    if (at.has("step")) value.step = at.integer("step", 0);
    value.event = at.word("event",
                          "step",
                          {"wrap",
                           "forward",
                           "grad.base",
                           "grad.inc",
                           "grad.pre",
                           "grad.post",
                           "grad.used",
                           "step",
                           "eval",
                           "end"});
    at.finish();
  } else {
    problem.report("an expected value needs 'at': { step = 0, event = \"step\" }", node.where);
  }
  value.tensor = table.text("tensor", "");
  value.equals = table.numbers("equals");
  value.by_rank = table.number_lists("by_rank");
  table.finish();
  if (value.equals.empty() == value.by_rank.empty()) {
    problem.report("an expected value has either 'equals' or 'by_rank'", node.where);
  }
  if (!value.by_rank.empty() && value.by_rank.size() != static_cast<std::size_t>(n_ranks)) {
    problem.report("'by_rank' has " + std::to_string(value.by_rank.size()) + " lists for " +
                       std::to_string(n_ranks) + " ranks",
                   node.where);
  }
  return value;
}

ExpectedSamples read_samples(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedSamples samples;
  samples.where = node.where;
  if (!node.is_table()) {
    problem.report("expected samples are a table: { rank = 0, step = 0, ids = [12, 9] }",
                   node.where);
    return samples;
  }
  TableReader table(node, "expect.samples", problem);
  samples.rank = table.small("rank", 0, 0, n_ranks - 1);
  samples.step = table.integer("step", 0);
  samples.ids = table.integers("ids");
  table.finish();
  return samples;
}

void read_quiet(TableReader& expect, Expectation& expectation, Problem& problem) {
  const TomlNode* quiet = expect.node("quiet");
  if (quiet == nullptr) return;
  if (quiet->is_array()) {
    expectation.quiet = expect.texts("quiet");
    for (const std::string& id : expectation.quiet) {
      check_law(id, quiet->where, problem);
      const bool fires = std::any_of(expectation.fires.begin(),
                                     expectation.fires.end(),
                                     [&](const ExpectedFinding& found) { return found.law == id; });
      if (fires) problem.report("law '" + id + "' cannot both fire and be quiet", quiet->where);
    }
    return;
  }
  expect.word("quiet", "rest", {"all", "rest"});
}

void read_metric(TableReader& expect, Expectation& expectation, Problem& problem) {
  const TomlNode* node = expect.table("metric");
  if (node == nullptr) return;
  TableReader table(*node, "expect.metric", problem);
  Expectation::Metric metric;
  metric.name = table.word("name", "accuracy", {"accuracy", "mse", "l1", "cross-entropy"});
  if (table.has("min")) metric.min = table.number("min", 0.0);
  if (table.has("max")) metric.max = table.number("max", 0.0);
  if (table.has("equals")) metric.equals = table.number("equals", 0.0);
  if (table.has("denominator")) metric.denominator = table.number("denominator", 0.0);
  table.finish();
  expectation.metric = metric;
}

}  // namespace

Expectation read_expectation(TableReader& root, std::int32_t n_ranks, Problem& problem) {
  Expectation expectation;
  const TomlNode* node = root.table("expect");
  if (node == nullptr) return expectation;
  TableReader expect(*node, "expect", problem);
  expectation.outcome = expect.word("outcome", RunOutcome::kOk);
  expectation.error = expect.text("error", "");
  if (expect.has("advice")) expectation.advice = expect.texts("advice");
  if (const TomlNode* fires = expect.array("fires")) {
    for (const TomlNode& item : fires->items) {
      expectation.fires.push_back(read_finding(item, n_ranks, problem));
    }
  }
  if (const TomlNode* values = expect.array("values")) {
    for (const TomlNode& item : values->items) {
      expectation.values.push_back(read_value(item, n_ranks, problem));
    }
  }
  if (const TomlNode* samples = expect.array("samples")) {
    for (const TomlNode& item : samples->items) {
      expectation.samples.push_back(read_samples(item, n_ranks, problem));
    }
  }
  read_quiet(expect, expectation, problem);
  read_metric(expect, expectation, problem);
  if (expect.has("restarts")) expectation.restarts = expect.integer("restarts", 0);
  if (const TomlNode* state = expect.table("final_state")) {
    TableReader final_state(*state, "expect.final_state", problem);
    expectation.final_state = final_state.text("equals_variant", "");
    final_state.finish();
  }
  expect.finish();
  if (expectation.outcome == RunOutcome::kOk && !expectation.fires.empty()) {
    problem.report("outcome \"ok\" and 'fires' contradict each other", expect.where("fires"));
  }
  return expectation;
}

}  // namespace lockstep
