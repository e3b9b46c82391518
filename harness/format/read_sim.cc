// sim, exact, policy: how a run is made, and what its laws may assume.
#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// Orders without settings: NCCL's take channels and rings besides.
constexpr std::array<std::string_view, 5> kOrders = {
    "rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"};

const Section<Scenario>& sim_section() {
  using Options = sim::SessionOptions;
  static const Section<Scenario> section("sim", [](Section<Scenario>& it) {
    const auto option = [](auto... members) { return in(&Scenario::session, members...); };
    it.add("strategy",
           option(&Options::strategy),
           "Which rank goes next: run-to-block, round-robin, random or pct, with settings, or a "
           "[schedule](../schedules.md).");
    it.add("schedule_seed", option(&Options::schedule_seed), "Of random strategies.");
    it.code(
        "also", FieldType::kTexts, "Strategies that law `deterministic` compares with besides.");
    it.code("order",
            FieldType::kWord,
            "In which order reductions add; NCCL's with channels and rings "
            "([determinism](../determinism.md)).")
        .words({kOrders.begin(), kOrders.end()})
        .shown(kOrders.front())
        .varies("the reduction order", {kOrders.begin(), kOrders.end()})
        .nudged({kOrders.begin(), kOrders.end()});
    it.add("pairing", option(&Options::group, &sim::GroupOptions::pairing), "Which calls meet.");
    it.add("keep_going",
           option(&Options::keep_going),
           "After an exception in a rank the others go on, as processes do.");
    it.add("livelock_points",
           option(&Options::livelock_points),
           "This many scheduling points without an event count as a hang.")
        .between(1, TableReader::kMost)
        .stays();
    it.add("watchdog_ns",
           option(&Options::group, &sim::GroupOptions::watchdog),
           "How long an operation may take before its ranks give up; 0: forever.");
    it.add("fidelity",
           option(&Options::group, &sim::GroupOptions::fidelity),
           "What of a collective takes time ([Time](#time)).")
        .nudged({"rendezvous", "message"});
    it.add("chunk_bytes",
           option(&Options::group, &sim::GroupOptions::net, &sim::NetOptions::chunk_bytes),
           "Messages are cut into pieces of this size; 0: uncut.");
    it.code("link", FieldType::kTable, "Links inside (`intra`) and between (`inter`) nodes.");
    it.code("compute", FieldType::kTable, "How long computing takes; absent: no time.");
  });
  return section;
}

void check_strategy(TableReader& table,
                    const std::string& name,
                    std::string_view key,
                    Problem& problem) {
  const auto made = sim::make_strategy(name, 0);
  if (made.ok()) return;
  problem.report("'" + table.path(key) + "': " + made.error().text(), table.where(key));
}

ReductionOrder read_order(TableReader& sim, std::int32_t n_ranks, Problem& problem) {
  const std::string name = sim.text("order", kOrders.front());
  const std::optional<ReductionOrder> order = parse_reduction_order(name);
  if (!order) {
    problem.report("'sim.order' does not know '" + name + "'" + did_you_mean(name, kOrders),
                   sim.where("order"));
  } else if (!order->fits(n_ranks)) {
    problem.report("the rings of '" + name + "' do not name the " + std::to_string(n_ranks) +
                       " ranks of this world",
                   sim.where("order"));
  }
  return order.value_or(ReductionOrder::kRank);
}

const Section<LawPolicy>& policy_section() {
  static const Section<LawPolicy> section("policy", [](Section<LawPolicy>& it) {
    it.add("buffers", &LawPolicy::buffers, "The intended state of buffers.")
        .shown("what the wrapper does");
    it.add("allow", &LawPolicy::allow, "Exempt on purpose: `[\"LAW\", \"LAW@TENSOR\"]`.")
        .shown("what hooks cannot keep");
    it.add("coverage",
           &LawPolicy::coverage,
           "Digests of a step cover this fraction, 1/n, of tensors of more than 4,096 elements, in "
           "turn.")
        .between(1, 1 << 16);
  });
  return section;
}

struct ExactTable : ExactSpec {
  DType dtype = DType::kF64;
};

const Section<ExactTable>& exact_section() {
  static const Section<ExactTable> section("exact", [](Section<ExactTable>& it) {
    it.add("grid", &ExactSpec::grid, "Values are multiples of 2^-grid.").at_most(40);
    it.add("clamp", &ExactSpec::clamp, "And at most this large.").from(0.0);
    it.add("scale_loss_by_world",
           &ExactSpec::scale_loss_by_world,
           "Local losses are multiplied by the number of ranks: averages stay exact.");
    it.add("dtype", &ExactTable::dtype, "Of models that do not say theirs.")
        .words({"f32", "f64", "bf16", "f16"});
  });
  return section;
}

}  // namespace

std::vector<SchemaSection> sim_sections() { return {sim_section().described()}; }

std::vector<SchemaSection> exact_sections() { return {exact_section().described()}; }

std::vector<SchemaSection> policy_sections() { return {policy_section().described()}; }

void read_simulation(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("sim");
  if (node == nullptr) return;
  TableReader table(*node, "sim", problem);
  sim_section().read(table, scenario);
  check_strategy(table, scenario.session.strategy, "strategy", problem);
  scenario.also = table.texts("also");
  for (const std::string& other : scenario.also) check_strategy(table, other, "also", problem);
  read_network(table, scenario, problem);
  scenario.session.group.order = read_order(table, scenario.n_ranks, problem);
  table.finish();
}

void read_policy(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("policy");
  if (node == nullptr) return;
  TableReader table(*node, "policy", problem);
  LawPolicy& laws = scenario.session.policy;
  policy_section().read(table, laws);
  table.finish();
  for (const std::string& allowed : laws.allow) {
    const std::string id = allowed.substr(0, allowed.find('@'));
    if (find_law(id) == nullptr) problem.report(unknown_law(id).message, table.where("allow"));
  }
}

ExactJobs read_exact(TableReader& root, Problem& problem) {
  const TomlNode* node = root.table("exact");
  if (node == nullptr) return {};
  ExactTable exact;
  exact_section().read_table(*node, exact, problem);
  exact.on = true;
  return {static_cast<const ExactSpec&>(exact), exact.dtype};
}

}  // namespace lockstep
