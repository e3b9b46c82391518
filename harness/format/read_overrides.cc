// override: what differs between ranks.
#include <map>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

struct Override {
  RankSet ranks;
  const TomlNode* set = nullptr;
};

/// Of tables that code reads.
struct OverrideTable {};

const Section<OverrideTable>& override_section() {
  static const Section<OverrideTable> section(
      "override",
      [](Section<OverrideTable>& it) {
        it.code("ranks", FieldType::kRanks, "Whose job it changes.").shown("all").stays();
        it.code("set", FieldType::kTable, "Dotted paths and values: `{ \"optimizer.lr\" = 0.5 }`.")
            .required();
      },
      SectionShape::kList);
  return section;
}

std::vector<Override> read_overrides(TableReader& root, std::int32_t n_ranks, Problem& problem) {
  std::vector<Override> overrides;
  const TomlNode* list = root.array("override");
  if (list == nullptr) return overrides;
  for (const TomlNode& node : list->items) {
    if (!node.is_table()) {
      problem.report("an override is a table: { ranks = [1], set = { \"optimizer.lr\" = 0.5 } }",
                     node.where);
      continue;
    }
    TableReader table(node, override_section().name(), problem);
    Override change;
    change.ranks = read_ranks(table, n_ranks, problem);
    change.set = table.table("set");
    if (change.set == nullptr) {
      problem.report("an override needs 'set': { \"optimizer.lr\" = 0.5 }", node.where);
    }
    table.finish();
    if (change.set == nullptr) continue;
    for (const TomlField& field : change.set->fields) {
      if (may_differ_by_rank(field.key)) continue;
      problem.report("'" + field.key + "' cannot differ between ranks", field.where);
    }
    overrides.push_back(change);
  }
  return overrides;
}

/// The document as the ranks see it on which exactly the overrides `active` apply.
TomlNode overridden(const TomlNode& root,
                    const std::vector<Override>& overrides,
                    const std::vector<bool>& active,
                    Problem& problem) {
  TomlNode result = copy_of(root);
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (!active[i]) continue;
    for (const TomlField& field : overrides[i].set->fields) {
      const bool merges = field.value.is_table() && result.find(field.key) != nullptr;
      if (merges) {
        merge_into(*result.find(field.key), field.value);
        continue;
      }
      const Outcome set = set_at(result, field.key, copy_of(field.value));
      if (!set.ok()) problem.report(set.error().message, set.error().where);
    }
  }
  return result;
}

}  // namespace

std::vector<SchemaSection> override_sections() { return {override_section().described()}; }

void read_jobs(TableReader& root,
               const TomlNode& document,
               const JobSurroundings& around,
               Scenario& scenario,
               Problem& problem) {
  const std::vector<Override> overrides = read_overrides(root, scenario.n_ranks, problem);
  std::map<std::vector<bool>, std::shared_ptr<const Job>> jobs;
  for (std::int32_t rank = 0; rank < scenario.n_ranks && !problem.found(); ++rank) {
    std::vector<bool> active;
    active.reserve(overrides.size());
    for (const Override& change : overrides) active.push_back(change.ranks.contains(rank));
    std::shared_ptr<const Job>& job = jobs[active];
    if (job == nullptr) {
      const TomlNode merged = overridden(document, overrides, active, problem);
      TableReader reader(merged, "", problem);
      job = read_job(reader, around, problem);
    }
    scenario.jobs.push_back(job);
  }
}

}  // namespace lockstep
