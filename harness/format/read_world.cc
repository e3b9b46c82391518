// world, sim, exact, policy.
#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

constexpr std::int32_t kMaxRanks = 1'000'000;

std::int32_t read_size(TableReader& world, Scenario& scenario, Problem& problem) {
  const bool by_nodes = world.has("nodes") || world.has("ranks_per_node");
  if (by_nodes && world.has("ranks")) {
    problem.report("a world has either 'ranks' or 'nodes' and 'ranks_per_node', not both",
                   world.where("ranks"));
  }
  const std::int32_t ranks = world.small("ranks", 1, 1, kMaxRanks);
  const std::int32_t nodes = world.small("nodes", 1, 1, kMaxRanks);
  const std::int32_t per_node = world.small("ranks_per_node", 1, 1, kMaxRanks);
  if (!by_nodes) return ranks;
  scenario.session.group.net.ranks_per_node = per_node;
  const std::int64_t product = std::int64_t{nodes} * per_node;
  if (product > kMaxRanks) {
    problem.report("a world of " + std::to_string(product) + " ranks is larger than " +
                       std::to_string(kMaxRanks),
                   world.where("nodes"));
    return 1;
  }
  return static_cast<std::int32_t>(product);
}

/// One entry of world.environment, for each of its ranks.
void read_variables(const TomlNode& node, Scenario& scenario, Problem& problem) {
  TableReader table(node, "world.environment", problem);
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
    }
    if (members.empty()) {
      problem.report("group '" + field.key + "' needs at least one list of ranks: [[0, 1]]",
                     field.value.where);
    }
  }
}

ReductionOrder read_order(TableReader& sim, std::int32_t n_ranks, Problem& problem) {
  const std::string name = sim.text("order", "rank");
  const std::optional<ReductionOrder> order = parse_reduction_order(name);
  if (!order) {
    constexpr std::array<std::string_view, 5> kNames = {
        "rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"};
    problem.report("'sim.order' does not know '" + name + "'" + did_you_mean(name, kNames),
                   sim.where("order"));
  } else if (!order->fits(n_ranks)) {
    problem.report("the rings of '" + name + "' do not name the " + std::to_string(n_ranks) +
                       " ranks of this world",
                   sim.where("order"));
  }
  return order.value_or(ReductionOrder::kRank);
}

void read_simulation(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("sim");
  if (node == nullptr) return;
  TableReader sim(*node, "sim", problem);
  sim::SessionOptions& session = scenario.session;
  session.strategy = sim.text("strategy", "run-to-block");
  session.schedule_seed = sim.seed("schedule_seed");
  if (const auto made = sim::make_strategy(session.strategy, 0); !made.ok()) {
    problem.report("'sim.strategy': " + made.error().text(), sim.where("strategy"));
  }
  scenario.also = sim.texts("also");
  for (const std::string& other : scenario.also) {
    if (const auto made = sim::make_strategy(other, 0); !made.ok()) {
      problem.report("'sim.also': " + made.error().text(), sim.where("also"));
    }
  }
  read_network(sim, scenario, problem);
  session.group.order = read_order(sim, scenario.n_ranks, problem);
  session.group.pairing = sim.word("pairing", session.group.pairing);
  session.keep_going = sim.flag("keep_going", false);
  session.livelock_points =
      static_cast<std::uint64_t>(sim.integer("livelock_points", 50'000'000, 1));
  session.group.watchdog = Duration{sim.integer("watchdog_ns", 0)};
  sim.finish();
}

void read_policy(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("policy");
  if (node == nullptr) return;
  TableReader policy(*node, "policy", problem);
  LawPolicy& laws = scenario.session.policy;
  if (policy.has("buffers")) {
    laws.buffers = policy.word("buffers", BufferPolicy::kLocal);
  }
  laws.allow = policy.texts("allow");
  laws.coverage = policy.small("coverage", 1, 1, 1 << 16);
  policy.finish();
  for (const std::string& allowed : laws.allow) {
    const std::string id = allowed.substr(0, allowed.find('@'));
    if (find_law(id) == nullptr) problem.report(unknown_law(id).message, policy.where("allow"));
  }
}

}  // namespace

void read_world(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("world");
  if (node == nullptr) {
    problem.report("a scenario needs a world: world = { ranks = 2 }", root.where());
  } else {
    TableReader world(*node, "world", problem);
    scenario.n_ranks = read_size(world, scenario, problem);
    scenario.seed = world.seed("seed");
    read_groups(world, scenario, problem);
    read_environment(world, scenario, problem);
    scenario.session.disk_scope = world.word("disks", scenario.session.disk_scope);
    read_restarts(world, scenario, problem);
    world.finish();
  }
  scenario.session.n_ranks = scenario.n_ranks;
  read_simulation(root, scenario, problem);
  read_policy(root, scenario, problem);
}

ExactSpec read_exact(TableReader& root, Problem& problem) {
  ExactSpec exact;
  const TomlNode* node = root.table("exact");
  if (node == nullptr) return exact;
  TableReader table(*node, "exact", problem);
  exact.on = true;
  exact.grid = table.small("grid", exact.grid, 0, 40);
  exact.clamp = table.number_from("clamp", exact.clamp, 0.0);
  exact.scale_loss_by_world = table.flag("scale_loss_by_world", false);
  table.has("dtype");  // Read with the model, whose default it is.
  table.finish();
  return exact;
}

}  // namespace lockstep
