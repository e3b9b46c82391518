// sim.link and sim.compute: what takes how long.
#include <cmath>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongestDelay = 1'000'000'000'000;

void add_link(Section<sim::LinkSpec>& it) {
  it.add("latency_ns", &sim::LinkSpec::latency_ns, "A message arrives this long after it left.")
      .in_unit("ns")
      .at_most(kLongestDelay);
  it.add("gb_per_s", &sim::LinkSpec::gb_per_s, "10^9 bytes a second, one way; 0: no limit.")
      .from(0.0);
  it.add("jitter_ns", &sim::LinkSpec::jitter_ns, "Up to so much more latency, for each message.")
      .in_unit("ns")
      .at_most(kLongestDelay);
}

const Section<sim::LinkSpec>& intra_section() {
  static const Section<sim::LinkSpec> section("sim.link.intra", add_link);
  return section;
}

const Section<sim::LinkSpec>& inter_section() {
  static const Section<sim::LinkSpec> section("sim.link.inter", add_link);
  return section;
}

const Section<sim::NetOptions>& link_section() {
  using Net = sim::NetOptions;
  static const Section<Net> section("sim.link", [](Section<Net>& it) {
    it.table("intra", &Net::intra, intra_section(), "Between ranks of a node.");
    it.table("inter", &Net::inter, inter_section(), "Between nodes.");
  });
  return section;
}

struct SlowTable {
  double factor = 1.0;
};

const Section<SlowTable>& slow_section() {
  static const Section<SlowTable> section(
      "sim.compute.slow",
      [](Section<SlowTable>& it) {
        it.code("ranks", FieldType::kRanks, "Those that are slower.").shown("all");
        it.add("factor", &SlowTable::factor, "How many times as long their products take.")
            .from(0.0)
            .to(1e6)
            .links(RankLink::kFactor);
      },
      SectionShape::kList);
  return section;
}

struct ComputeTable {
  double gflops = 1000.0;
  double jitter = 0.0;
  double contention = 0.0;
};

const Section<ComputeTable>& compute_section() {
  static const Section<ComputeTable> section("sim.compute", [](Section<ComputeTable>& it) {
    it.add("gflops", &ComputeTable::gflops, "10^9 operations a second.").from(0.001).to(1e9);
    it.add("jitter", &ComputeTable::jitter, "Each product takes up to this share longer.")
        .from(0.0)
        .to(1e6);
    it.add("contention",
           &ComputeTable::contention,
           "The share of its speed, below 1, that a rank loses while messages of its own are under "
           "way.")
        .from(0.0);
    it.code("slow", FieldType::kTables, "Slower ranks.");
  });
  return section;
}

void read_slow(TableReader& compute, Scenario& scenario, Problem& problem) {
  const TomlNode* list = compute.array("slow");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) {
    TableReader table(node, slow_section().name(), problem);
    SlowTable slow;
    slow_section().read(table, slow);
    const RankSet set = read_ranks(table, scenario.n_ranks, problem);
    for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
      if (!set.contains(rank)) continue;
      scenario.session.compute.slow.push_back({rank, std::llround(slow.factor * 1000.0)});
    }
    table.finish();
  }
}

void read_compute(TableReader& sim, Scenario& scenario, Problem& problem) {
  const TomlNode* node = sim.table("compute");
  if (node == nullptr) return;
  TableReader table(*node, compute_section().name(), problem);
  ComputeTable compute;
  compute_section().read(table, compute);
  sim::ComputeSpec& spec = scenario.session.compute;
  spec.mflops = std::llround(compute.gflops * 1000.0);
  spec.jitter_permille = std::llround(compute.jitter * 1000.0);
  if (compute.contention >= 0.9995) {
    problem.report("with 'contention' 1 a rank would never end its products",
                   table.where("contention"));
  } else {
    spec.contention_permille = std::llround(compute.contention * 1000.0);
  }
  spec.seed = scenario.seed;
  read_slow(table, scenario, problem);
  table.finish();
}

}  // namespace

std::vector<SchemaSection> network_sections() {
  return {link_section().described(),
          intra_section().described(),
          inter_section().described(),
          compute_section().described(),
          slow_section().described()};
}

void read_network(TableReader& sim, Scenario& scenario, Problem& problem) {
  sim::NetOptions& net = scenario.session.group.net;
  net.seed = scenario.seed;
  if (const TomlNode* node = sim.table("link"); node != nullptr) {
    link_section().read_table(*node, net, problem);
  }
  read_compute(sim, scenario, problem);
  scenario.session.timed = !net.is_free() || !scenario.session.compute.is_free();
}

}  // namespace lockstep
