// expect: what a run of the scenario must show.
#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

Cause read_cause(TableReader& table, Problem& problem) {
  const std::string id = table.text("cause", "");
  const std::optional<Cause> cause = parse_cause(id);
  if (cause || id.empty()) return cause.value_or(Cause::kNone);
  std::vector<std::string_view> ids;
  for (const CauseInfo& info : all_causes()) ids.push_back(info.id);
  problem.report("unknown cause '" + id + "'" + did_you_mean(id, ids), table.where("cause"));
  return Cause::kNone;
}

const Section<ExpectedFinding>& finding_section() {
  using Finding = ExpectedFinding;
  static const Section<Finding> section(
      "expect.fires",
      [](Section<Finding>& it) {
        it.add("law", &Finding::law, "A [law](../laws.md).").required();
        it.add("step", &Finding::step, "Optimizer step.");
        it.add("seq", &Finding::seq, "Number of the collective in its group.");
        it.add("tensor", &Finding::tensor, "Its name.");
        it.add("field", &Finding::field, "In which the ranks' calls differ.");
        it.add("site", &Finding::site, "Call site, or a part of it.");
        it.code("cause", FieldType::kText, "A [cause](../causes.md).");
        it.code("ranks", FieldType::kIntegers, "The ranks it names.").links(RankLink::kNames);
        it.code("missing", FieldType::kIntegers, "The ranks it misses.");
        it.add("weights", &Finding::weights, "The weights that ranks had in an average.");
        it.add("declared", &Finding::declared, "Those they should have had.");
        it.all_stays();
      },
      SectionShape::kList);
  return section;
}

ExpectedFinding read_finding(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedFinding finding;
  finding.where = node.where;
  if (!node.is_table()) {
    problem.report("an expected finding is a table: { law = \"replicas-equal\", step = 0 }",
                   node.where);
    return finding;
  }
  TableReader table(node, finding_section().name(), problem);
  finding_section().read(table, finding);
  check_law(finding.law, table.where("law"), problem);
  finding.cause = read_cause(table, problem);
  if (const TomlNode* ranks = table.array("ranks")) {
    finding.ranks = ranks_of(*ranks, n_ranks, problem);
  }
  if (const TomlNode* missing = table.array("missing")) {
    finding.missing = ranks_of(*missing, n_ranks, problem);
  }
  table.finish();
  return finding;
}

const Section<ExpectedValue>& value_place_section() {
  using Value = ExpectedValue;
  static const Section<Value> section("expect.values.at", [](Section<Value>& it) {
    it.add("step", &Value::step, "Optimizer step.");
    it.add("event", &Value::event, "The event that has the values.")
        .preset(ValuePoint::kStep)
        .words({"wrap",
                "forward",
                "grad.base",
                "grad.inc",
                "grad.pre",
                "grad.post",
                "grad.used",
                "step",
                "eval",
                "end"});
    it.all_stays();
  });
  return section;
}

const Section<ExpectedValue>& value_section() {
  using Value = ExpectedValue;
  static const Section<Value> section(
      "expect.values",
      [](Section<Value>& it) {
        it.code("at", FieldType::kTable, "Where.").required();
        it.add("tensor", &Value::tensor, "Its name.");
        it.add("equals", &Value::equals, "All elements, on every rank; compared exactly.");
        it.add("by_rank", &Value::by_rank, "All elements of each rank; instead of `equals`.");
        it.all_stays();
      },
      SectionShape::kList);
  return section;
}

ExpectedValue read_value(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedValue value;
  value.where = node.where;
  if (!node.is_table()) {
    problem.report("an expected value is a table: { at = { step = 0, event = \"step\" }, ... }",
                   node.where);
    return value;
  }
  TableReader table(node, value_section().name(), problem);
  value_section().read(table, value);
  if (const TomlNode* place = table.table("at")) {
    value_place_section().read_table(*place, value, problem);
  } else {
    problem.report("an expected value needs 'at': { step = 0, event = \"step\" }", node.where);
  }
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

const Section<ExpectedSamples>& samples_section() {
  using Samples = ExpectedSamples;
  static const Section<Samples> section(
      "expect.samples",
      [](Section<Samples>& it) {
        it.add("rank", &Samples::rank, "Who consumed the rows; below the number of ranks.");
        it.add("step", &Samples::step, "Optimizer step.");
        it.add("ids", &Samples::ids, "The rows, in order.");
        it.all_stays();
      },
      SectionShape::kList);
  return section;
}

ExpectedSamples read_samples(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  ExpectedSamples samples;
  samples.where = node.where;
  if (!node.is_table()) {
    problem.report("expected samples are a table: { rank = 0, step = 0, ids = [12, 9] }",
                   node.where);
    return samples;
  }
  TableReader table(node, samples_section().name(), problem);
  samples_section().read(table, samples);
  table.integer("rank", 0, 0, n_ranks - 1);
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
  constexpr std::array<std::string_view, 2> kWordsOfQuiet = {"all", "rest"};
  expect.word("quiet", "rest", kWordsOfQuiet);
}

const Section<Expectation::Metric>& metric_section() {
  using Metric = Expectation::Metric;
  static const Section<Metric> section("expect.metric", [](Section<Metric>& it) {
    it.add("name", &Metric::name, "Which one.")
        .preset(std::string(name_of(EvalMetric::kAccuracy)))
        .words({kEnumNames<EvalMetric>.begin(), kEnumNames<EvalMetric>.end()});
    it.add("min", &Metric::min, "It is at least this.");
    it.add("max", &Metric::max, "It is at most this.");
    it.add("equals", &Metric::equals, "It is exactly this.");
    it.add("denominator", &Metric::denominator, "It is a mean over this many.");
    it.all_stays();
  });
  return section;
}

struct FinalState {
  std::string equals_variant;
};

const Section<FinalState>& final_state_section() {
  static const Section<FinalState> section("expect.final_state", [](Section<FinalState>& it) {
    it.add("equals_variant",
           &FinalState::equals_variant,
           "Every rank ends with the parameters, bit for bit, of this variant of the file.")
        .shown("the base");
    it.all_stays();
  });
  return section;
}

const Section<Expectation>& expect_section() {
  static const Section<Expectation> section("expect", [](Section<Expectation>& it) {
    it.add("outcome", &Expectation::outcome, "How the run ends.");
    it.add("error", &Expectation::error, "A part of the error's text.");
    it.code("advice",
            FieldType::kTexts,
            "Exactly the advice that laws must give, such as `[\"A-straggler\"]`.")
        .shown("anything");
    it.code("fires",
            FieldType::kTables,
            "Findings that must fire; keys that are left out match anything.");
    it.code("values", FieldType::kTables, "Values of tensors.");
    it.code("samples", FieldType::kTables, "Rows that a rank consumed in a step.");
    it.code(
          "quiet",
          FieldType::kAny,
          "No law fires that `fires` does not name, whatever the value: `\"all\"`, `\"rest\"`, or "
          "a list of laws that must also have checked something.")
        .shown("rest");
    it.code("metric", FieldType::kTable, "The metric of the last evaluation.");
    it.add("restarts", &Expectation::restarts, "How often the agent restarted the job.");
    it.code("final_state", FieldType::kTable, "What the run ends with.");
    it.all_stays();
  });
  return section;
}

template <typename T, typename Read>
void read_each(TableReader& expect, std::string_view key, std::vector<T>& into, Read read) {
  const TomlNode* list = expect.array(key);
  if (list == nullptr) return;
  for (const TomlNode& item : list->items) into.push_back(read(item));
}

template <typename T>
std::optional<T> read_if_there(TableReader& expect,
                               std::string_view key,
                               const Section<T>& section) {
  const TomlNode* node = expect.table(key);
  if (node == nullptr) return std::nullopt;
  T value;
  section.read_table(*node, value, expect.problem());
  return value;
}

}  // namespace

void check_law(const std::string& id, const std::string& where, Problem& problem) {
  if (find_law(id) == nullptr) problem.report(unknown_law(id).message, where);
}

std::vector<SchemaSection> expect_sections() {
  return {expect_section().described(),
          finding_section().described(),
          value_section().described(),
          value_place_section().described(),
          samples_section().described(),
          metric_section().described(),
          final_state_section().described()};
}

Expectation read_expectation(TableReader& root, std::int32_t n_ranks, Problem& problem) {
  Expectation expectation;
  const TomlNode* node = root.table("expect");
  if (node == nullptr) return expectation;
  TableReader expect(*node, expect_section().name(), problem);
  expect_section().read(expect, expectation);
  if (expect.has("advice")) expectation.advice = expect.texts("advice");
  read_each(expect, "fires", expectation.fires, [&](const TomlNode& item) {
    return read_finding(item, n_ranks, problem);
  });
  read_each(expect, "values", expectation.values, [&](const TomlNode& item) {
    return read_value(item, n_ranks, problem);
  });
  read_each(expect, "samples", expectation.samples, [&](const TomlNode& item) {
    return read_samples(item, n_ranks, problem);
  });
  read_quiet(expect, expectation, problem);
  expectation.metric = read_if_there(expect, "metric", metric_section());
  const auto state = read_if_there(expect, "final_state", final_state_section());
  if (state) expectation.final_state = state->equals_variant;
  expect.finish();
  if (expectation.outcome == RunOutcome::kOk && !expectation.fires.empty()) {
    problem.report("outcome \"ok\" and 'fires' contradict each other", expect.where("fires"));
  }
  return expectation;
}

}  // namespace lockstep
