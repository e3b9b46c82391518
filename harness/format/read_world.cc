// world: how many ranks there are, where they sit, and who restarts them.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxRanks = TableReader::kMostSmall;

/// The size of the world, and what an agent does. Members that other parts of a scenario use too
/// are the scenario's own.
struct WorldTable {
  std::int32_t ranks = 1;
  std::int32_t nodes = 1;
  std::int32_t ranks_per_node = 1;
  std::uint64_t seed = Scenario().seed;
  sim::DiskScope disks = sim::SessionOptions().disk_scope;
  sim::AgentOptions agent;
};

const Section<WorldTable>& world_section() {
  using Table = WorldTable;
  static const Section<Table> section("world", [](Section<Table>& it) {
    it.stays();
    it.add("ranks", &Table::ranks, "How many there are.").between(1, kMaxRanks).stays().nudged();
    it.add("nodes", &Table::nodes, "Machines; instead of `ranks`, with `ranks_per_node`.")
        .between(1, kMaxRanks)
        .stays();
    it.add("ranks_per_node", &Table::ranks_per_node, "Consecutive ranks on a machine.")
        .between(1, kMaxRanks)
        .stays();
    it.add("seed", &Table::seed, "Of what the simulated world draws: jitter, what crashes leave.")
        .seeds_job();
    it.code("groups", FieldType::kTable, "For programs: `NAME = [[0, 1], [2, 3]]`.");
    it.code("environment",
            FieldType::kTables,
            "Overrides what the launcher sets; `LOCKSTEP_DEVICE`: the accelerator a rank computes "
            "on.");
    it.add("disks",
           &Table::disks,
           "Who sees the files that a rank writes: all ranks or those of its node; files need a "
           "folder that was made before.");
    const auto agent = [](auto member) { return in(&Table::agent, member); };
    it.add("max_restarts",
           agent(&sim::AgentOptions::max_restarts),
           "Runs the job under an elastic agent ([restarts](faults.md#restarts)).")
        .at_most(1000)
        .shown("no agent")
        .counts();
    it.add("monitor_interval_ns",
           agent(&sim::AgentOptions::monitor_interval),
           "How long after a rank's death the agent ends the others.")
        .at_least(1);
    it.add("reassign",
           agent(&sim::AgentOptions::reassign),
           "Each rendezvous gives ranks different places (links, slow processors).");
    it.code("ranks_after_restart", FieldType::kIntegers, "Sizes of later attempts.")
        .counts()
        .links(RankLink::kSizes);
  });
  return section;
}

/// Of tables that code reads.
struct Nothing {};

std::int32_t size_of_world(TableReader& table, const WorldTable& world, Scenario& scenario) {
  const bool by_nodes = table.has("nodes") || table.has("ranks_per_node");
  if (by_nodes && table.has("ranks")) {
    table.problem().report("a world has either 'ranks' or 'nodes' and 'ranks_per_node', not both",
                           table.where("ranks"));
  }
  if (!by_nodes) return world.ranks;
  scenario.session.group.net.ranks_per_node = world.ranks_per_node;
  const std::int64_t product = std::int64_t{world.nodes} * world.ranks_per_node;
  if (product <= kMaxRanks) return static_cast<std::int32_t>(product);
  table.problem().report("a world of " + std::to_string(product) + " ranks is larger than " +
                             std::to_string(kMaxRanks),
                         table.where("nodes"));
  return 1;
}

const Section<Nothing>& variables_section() {
  static const Section<Nothing> section(
      "world.environment",
      [](Section<Nothing>& it) {
        it.code("ranks", FieldType::kRanks, "Those that have the variables.").shown("all").stays();
        it.code("set", FieldType::kTable, "Names and values: `{ LOCAL_RANK = \"0\" }`.");
      },
      SectionShape::kList);
  return section;
}

/// One entry of world.environment, for each of its ranks.
void read_variables(const TomlNode& node, Scenario& scenario, Problem& problem) {
  TableReader table(node, variables_section().name(), problem);
  Nothing nothing;
  variables_section().read(table, nothing);
  const RankSet ranks = read_ranks(table, scenario.n_ranks, problem);
  const TomlNode* set = table.table("set");
  table.finish();
  if (set == nullptr) return;
  TableReader variables(*set, "world.environment.set", problem);
  for (const TomlField& field : set->fields) {
    const std::string value = variables.text(field.key, "");
    for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
      if (ranks.contains(rank)) scenario.session.environment.push_back({rank, field.key, value});
    }
  }
}

/// What a launcher sets for each rank, in addition to what nodes say.
void read_environment(TableReader& world, Scenario& scenario, Problem& problem) {
  if (const TomlNode* list = world.array("environment")) {
    for (const TomlNode& node : list->items) {
      if (node.is_table()) {
        read_variables(node, scenario, problem);
      } else {
        problem.report("an environment is a table: { ranks = [1], set = { LOCAL_RANK = \"0\" } }",
                       node.where);
      }
    }
  }
  // Stable: a rank's first variable of a name counts.
  std::stable_sort(
      scenario.session.environment.begin(),
      scenario.session.environment.end(),
      [](const sim::RankVariable& a, const sim::RankVariable& b) { return a.rank < b.rank; });
}

bool has_twice(std::vector<std::int32_t> ranks) {
  std::ranges::sort(ranks);
  return std::ranges::adjacent_find(ranks) != ranks.end();
}

void read_groups(TableReader& world, Scenario& scenario, Problem& problem) {
  const TomlNode* groups = world.table("groups");
  if (groups == nullptr) return;
  for (const TomlField& field : groups->fields) {
    std::vector<std::vector<std::int32_t>>& members = scenario.groups[field.key];
    for (const TomlNode& list : field.value.items) {
      if (!list.is_array()) {
        problem.report("a group is a list of lists of ranks: [[0, 1], [2, 3]]", list.where);
        continue;
      }
      members.push_back(ranks_of(list, scenario.n_ranks, problem));
      if (has_twice(members.back())) problem.report("a rank is in a group once", list.where);
    }
    if (members.empty()) {
      problem.report("group '" + field.key + "' needs at least one list of ranks: [[0, 1]]",
                     field.value.where);
    }
  }
}

void read_restarts(TableReader& table, sim::AgentOptions agent, Scenario& scenario) {
  const bool restarts = table.has("max_restarts");
  for (const std::int64_t n : table.integers("ranks_after_restart")) {
    if (n >= 1 && n <= scenario.n_ranks) {
      agent.n_ranks_later.push_back(static_cast<std::int32_t>(n));
      continue;
    }
    table.problem().report(
        "a restarted world has 1 to " + std::to_string(scenario.n_ranks) + " ranks",
        table.where("ranks_after_restart"));
  }
  for (const std::string_view key : {"monitor_interval_ns", "reassign", "ranks_after_restart"}) {
    if (restarts || !table.has(key)) continue;
    table.problem().report("'" + table.path(key) + "' needs 'max_restarts'", table.where(key));
  }
  if (restarts) scenario.session.agent = std::move(agent);
}

}  // namespace

std::vector<SchemaSection> world_sections() {
  return {world_section().described(), variables_section().described()};
}

void read_world(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("world");
  if (node == nullptr) {
    problem.report("a scenario needs a world: world = { ranks = 2 }", root.where());
  } else {
    TableReader table(*node, "world", problem);
    WorldTable world;
    world_section().read(table, world);
    scenario.n_ranks = size_of_world(table, world, scenario);
    scenario.seed = world.seed;
    scenario.session.disk_scope = world.disks;
    scenario.session.disk_seed = world.seed;
    read_groups(table, scenario, problem);
    read_environment(table, scenario, problem);
    read_restarts(table, std::move(world.agent), scenario);
    table.finish();
  }
  scenario.session.n_ranks = scenario.n_ranks;
  read_simulation(root, scenario, problem);
  read_policy(root, scenario, problem);
}

}  // namespace lockstep
