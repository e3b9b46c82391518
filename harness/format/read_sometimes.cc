// sometimes = [...]: marks, which a campaign of runs should reach.
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<MarkSpec>& mark_section() {
  static const Section<MarkSpec> section(
      "sometimes",
      [](Section<MarkSpec>& it) {
        it.add("name", &MarkSpec::name, "What should happen in some run.").required();
        it.code(
            "event",
            FieldType::kText,
            "A kind of [event](../trace_format.md) that a rank records, or an operation that it "
            "calls: `\"snapshot\"`, `\"all_reduce\"`.");
        it.add("text",
               &MarkSpec::text,
               "Of `event`: a part of its line in the trace, such as `'\"action\":\"load\"'`.");
        it.add("rank", &MarkSpec::rank, "Of `event`: the rank.").links(RankLink::kNames);
        it.add("step", &MarkSpec::step, "Of `event`: the optimizer step.");
        it.add("attempt", &MarkSpec::attempt, "Of `event`: the run of the job, counted from 0.");
        it.add("law", &MarkSpec::law, "A [law](../laws.md) that is broken.");
        it.add("outcome", &MarkSpec::outcome, "How the run ends.");
        it.all_stays();
      },
      SectionShape::kList);
  return section;
}

MarkSpec read_mark(const TomlNode& node, std::int32_t n_ranks, Problem& problem) {
  MarkSpec mark;
  mark.where = node.where;
  if (!node.is_table()) {
    problem.report(
        "a mark is a table: { name = \"a job resumes\", event = \"snapshot\", text = ... }",
        node.where);
    return mark;
  }
  TableReader table(node, mark_section().name(), problem);
  mark_section().read(table, mark);
  if (table.has("event")) {
    const std::string word = table.text("event", "");
    mark.event = sim::Occasion::named(word);
    if (!mark.event) {
      std::vector<std::string_view> words(kEnumNames<EventKind>.begin(),
                                          kEnumNames<EventKind>.end());
      words.insert(words.end(), kEnumNames<CollectiveOp>.begin(), kEnumNames<CollectiveOp>.end());
      problem.report("no event is called '" + word + "'" + did_you_mean(word, words),
                     table.where("event"));
    }
  }
  table.finish();
  if (mark.name.empty()) problem.report("a mark needs a 'name': what should happen", node.where);
  if (!mark.law.empty()) check_law(mark.law, table.where("law"), problem);
  if (mark.rank) check_rank(*mark.rank, n_ranks, table.where("rank"), problem);
  if (!mark.event && mark.law.empty() && !mark.outcome) {
    problem.report("a mark needs an 'event', a 'law' or an 'outcome'", node.where);
  }
  const bool placed = !mark.text.empty() || mark.rank || mark.step || mark.attempt;
  if (placed && !mark.event) {
    problem.report("'text', 'rank', 'step' and 'attempt' are those of an 'event'", node.where);
  }
  return mark;
}

}  // namespace

std::vector<SchemaSection> mark_sections() { return {mark_section().described()}; }

void read_marks(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* list = root.array("sometimes");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) {
    scenario.marks.push_back(read_mark(node, scenario.n_ranks, problem));
  }
}

}  // namespace lockstep
