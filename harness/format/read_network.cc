// sim.fidelity, sim.link, sim.chunk_bytes, sim.compute: what takes how long.
#include <cmath>

#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

sim::LinkSpec read_link(TableReader& links, const char* name, Problem& problem) {
  const TomlNode* node = links.table(name);
  if (node == nullptr) return {};
  TableReader link(*node, std::string("sim.link.") + name, problem);
  const sim::LinkSpec spec{.latency_ns = link.integer("latency_ns", 0, 0, 1'000'000'000'000),
                           .gb_per_s = link.number_from("gb_per_s", 0.0, 0.0),
                           .jitter_ns = link.integer("jitter_ns", 0, 0, 1'000'000'000'000)};
  link.finish();
  return spec;
}

void read_slow(TableReader& compute, Scenario& scenario, Problem& problem) {
  const TomlNode* list = compute.array("slow");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) {
    TableReader slow(node, "sim.compute.slow", problem);
    const double factor = slow.number_from("factor", 1.0, 0.0);
    const RankSet set = read_ranks(slow, scenario.n_ranks, problem);
    for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
      if (!set.contains(rank)) continue;
      scenario.session.compute.slow.push_back({rank, std::llround(factor * 1000.0)});
    }
    slow.finish();
  }
}

void read_compute(TableReader& sim, Scenario& scenario, Problem& problem) {
  const TomlNode* node = sim.table("compute");
  if (node == nullptr) return;
  TableReader compute(*node, "sim.compute", problem);
  sim::ComputeSpec& spec = scenario.session.compute;
  spec.mflops = std::llround(compute.number_from("gflops", 1000.0, 0.001) * 1000.0);
  spec.jitter_permille = std::llround(compute.number_from("jitter", 0.0, 0.0) * 1000.0);
  spec.seed = scenario.seed;
  read_slow(compute, scenario, problem);
  compute.finish();
}

}  // namespace

void read_network(TableReader& sim, Scenario& scenario, Problem& problem) {
  sim::GroupOptions& group = scenario.session.group;
  group.fidelity = sim.word("fidelity", group.fidelity);
  group.net.chunk_bytes = sim.integer("chunk_bytes", 0);
  group.net.seed = scenario.seed;
  if (const TomlNode* node = sim.table("link"); node != nullptr) {
    TableReader links(*node, "sim.link", problem);
    group.net.intra = read_link(links, "intra", problem);
    group.net.inter = read_link(links, "inter", problem);
    links.finish();
  }
  read_compute(sim, scenario, problem);
  scenario.session.timed = !group.net.is_free() || !scenario.session.compute.is_free();
}

}  // namespace lockstep
