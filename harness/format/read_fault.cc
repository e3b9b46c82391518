// fault = [...]: what goes wrong in the simulated world, and where.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

struct FaultWord {
  std::string_view kind;
  std::initializer_list<std::string_view> keys;  ///< What it takes besides `ranks` and its place.
};

const std::array<FaultWord, 13>& fault_words() {
  static const std::array<FaultWord, 13> words = {{
      {"crash", {"how", "code", "grace_ns", "fate"}},
      {"hang", {}},
      {"late", {"delay_ns"}},
      {"slow", {"factor", "for_ns"}},
      {"disk-full", {}},
      {"torn-write", {"fate"}},
      {"clock-skew", {"skew_ns"}},
      {"lose", {}},
      {"delay", {"delay_ns"}},
      {"duplicate", {}},
      {"corrupt", {"element", "bit", "side"}},
      {"stale", {}},
      {"link-down", {"peers", "for_ns", "period_ns"}},
  }};
  return words;
}

const FaultWord* find_fault(std::string_view kind) {
  const auto& words = fault_words();
  const auto* const found = std::find_if(
      words.begin(), words.end(), [&](const FaultWord& word) { return word.kind == kind; });
  return found == words.end() ? nullptr : found;
}

sim::FaultKind crash_kind(const std::string& how) {
  if (how == "oom") return sim::FaultKind::kOutOfMemory;
  return parse_word<sim::FaultKind>(how).value_or(sim::FaultKind::kSigkill);
}

void read_event_place(const TomlNode& node, sim::Fault& fault, Problem& problem) {
  TableReader at(node, "fault.at", problem);
  if (at.has("number")) fault.event = static_cast<std::uint64_t>(at.integer("number", 0));
  if (at.has("file_step")) fault.file_step = static_cast<std::uint64_t>(at.integer("file_step", 0));
  const bool counted = fault.event || fault.file_step;
  if (at.has("step")) fault.step = at.integer("step", 0);
  const std::string event =
      at.word("event", "forward", {"wrap",       "forward",        "backward", "batch",
                                   "grad",       "param",          "buffer",   "optimizer",
                                   "step",       "bucket",         "sample",   "epoch",
                                   "phase",      "metric",         "decision", "log",
                                   "end",        "snapshot",       "rng",      "group",
                                   "collective", "broadcast",      "reduce",   "all_reduce",
                                   "all_gather", "reduce_scatter", "gather",   "scatter",
                                   "barrier",    "all_to_all",     "send",     "recv"});
  if (!counted) fault.at = event;
  const std::string when = at.word("when", "posted", {"posted", "completed"});
  fault.when = parse_word<CollectivePhase>(when).value_or(fault.when);
  fault.nth = at.integer("nth", 0);
  at.finish();
  if (counted && (at.has("step") || at.has("event") || (fault.event && fault.file_step))) {
    problem.report("a place is 'step' and 'event', or 'number', or 'file_step'", node.where);
  }
}

void read_fault_place(TableReader& table, sim::Fault& fault, Problem& problem) {
  if (table.has("time_ns")) fault.time = VirtualTime{table.integer("time_ns", 0)};
  const TomlNode* at = table.table("at");
  if (at != nullptr) read_event_place(*at, fault, problem);
  if (at != nullptr && fault.time) {
    problem.report("a fault has either 'at' or 'time_ns', not both", table.where("time_ns"));
  }
  const bool none = at == nullptr && !fault.time;
  if (none && fault.kind == sim::FaultKind::kSlow) fault.time = VirtualTime{0};
  if (none && fault.kind != sim::FaultKind::kSlow) {
    problem.report("a fault needs a place: at = { step = 3, event = \"all_reduce\" } or time_ns",
                   table.where());
  }
}

void read_fault_numbers(TableReader& table, const FaultWord& word, sim::Fault& fault) {
  const auto takes = [&](std::string_view key) {
    return std::find(word.keys.begin(), word.keys.end(), key) != word.keys.end();
  };
  if (takes("how")) {
    fault.kind = crash_kind(
        table.word("how", "sigkill", {"exception", "exit", "sigkill", "sigterm", "oom"}));
  }
  if (takes("code")) fault.code = table.small("code", 1, 1, 255);
  if (takes("grace_ns")) fault.grace = Duration{table.integer("grace_ns", 0)};
  if (takes("delay_ns")) fault.delay = Duration{table.integer("delay_ns", 1'000'000, 1)};
  if (takes("factor")) {
    fault.permille = std::llround(table.number_from("factor", 2.0, 0.001) * 1000.0);
  }
  if (takes("for_ns")) fault.lasting = Duration{table.integer("for_ns", 0)};
  if (takes("element")) fault.element = table.integer("element", 0);
  if (takes("bit")) fault.bit = table.small("bit", 0, 0, 63);
  if (takes("side")) {
    fault.result = table.word("side", "before", {"before", "after"}) == "after";
  }
  if (takes("fate")) {
    fault.fate = table.word("fate", fault.fate);
  }
}

void skew_clocks(TableReader& table, const RankSet& ranks, Scenario& scenario) {
  const Duration skew{table.integer("skew_ns", 0, -TableReader::kMost)};
  std::vector<Duration>& skews = scenario.session.clock_skews;
  skews.resize(static_cast<std::size_t>(scenario.n_ranks));
  for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
    if (ranks.contains(rank)) skews[static_cast<std::size_t>(rank)] = skew;
  }
}

void cut_links(TableReader& table, const RankSet& ranks, Scenario& scenario, Problem& problem) {
  sim::Outage outage;
  outage.ranks = ranks.ranks;
  if (const TomlNode* peers = table.array("peers")) {
    outage.peers = ranks_of(*peers, scenario.n_ranks, problem);
  }
  outage.from_ns = table.integer("time_ns", 0);
  outage.for_ns = table.integer("for_ns", 0);
  outage.period_ns = table.integer("period_ns", 0);
  if (ranks.all) problem.report("a link goes from some 'ranks' to others", table.where("ranks"));
  if (outage.period_ns > 0 && outage.period_ns <= outage.for_ns) {
    problem.report("a link that flaps is up for a time: 'period_ns' is longer than 'for_ns'",
                   table.where("period_ns"));
  }
  scenario.session.group.net.outages.push_back(std::move(outage));
  scenario.session.timed = true;
}

bool is_collective_place(const sim::Fault& fault) {
  constexpr std::array<std::string_view, 9> kCollectives = {"collective",
                                                            "broadcast",
                                                            "reduce",
                                                            "all_reduce",
                                                            "all_gather",
                                                            "reduce_scatter",
                                                            "gather",
                                                            "scatter",
                                                            "all_to_all"};
  const bool known =
      fault.at == "barrier" ||
      std::find(kCollectives.begin(), kCollectives.end(), fault.at) != kCollectives.end();
  return known && fault.when == CollectivePhase::kPosted;
}

// What a fault of this kind needs besides its own keys.
void check_fault(const sim::Fault& fault,
                 const Scenario& scenario,
                 const TomlNode& node,
                 Problem& problem) {
  if (fault.kind == sim::FaultKind::kSlow && scenario.session.compute.is_free()) {
    problem.report("nothing is slow where computing takes no time: add sim.compute", node.where);
  }
  if (sim::is_contribution(fault.kind) && !is_collective_place(fault)) {
    problem.report("a contribution belongs to a collective: at = { event = \"all_reduce\" }",
                   node.where);
  }
  if (fault.kind == sim::FaultKind::kTornWrite && !fault.file_step) {
    problem.report("a torn write happens at = { file_step = 3 }", node.where);
  }
}

void read_fault(const TomlNode& node, Scenario& scenario, Problem& problem) {
  if (!node.is_table()) {
    return problem.report(
        "a fault is a table: { kind = \"crash\", ranks = [1], at = { step = 3 } }", node.where);
  }
  TableReader table(node, "fault", problem);
  const std::string kind = table.text("kind", "");
  const FaultWord* word = find_fault(kind);
  if (word == nullptr) {
    std::vector<std::string_view> known;
    for (const FaultWord& each : fault_words()) known.push_back(each.kind);
    return problem.report("unknown fault '" + kind + "'" + did_you_mean(kind, known),
                          table.where("kind"));
  }
  if (!table.has("ranks")) {
    problem.report("a fault needs 'ranks': [1], or \"all\"", node.where);
  }
  const RankSet ranks = read_ranks(table, scenario.n_ranks, problem);
  if (kind == "clock-skew") {
    skew_clocks(table, ranks, scenario);
    return table.finish();
  }
  if (kind == "link-down") {
    cut_links(table, ranks, scenario, problem);
    return table.finish();
  }
  sim::Fault fault;
  fault.kind = parse_word<sim::FaultKind>(kind).value_or(sim::FaultKind::kSigkill);
  read_fault_numbers(table, *word, fault);
  read_fault_place(table, fault, problem);
  fault.attempt = table.small("attempt", 0);
  table.finish();
  check_fault(fault, scenario, node, problem);
  for (fault.rank = 0; fault.rank < scenario.n_ranks; ++fault.rank) {
    if (ranks.contains(fault.rank)) scenario.session.faults.push_back(fault);
  }
}

}  // namespace

void read_faults(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* list = root.array("fault");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) read_fault(node, scenario, problem);
}

void read_restarts(TableReader& world, Scenario& scenario, Problem& problem) {
  const bool restarts = world.has("max_restarts");
  sim::AgentOptions agent;
  agent.max_restarts = world.small("max_restarts", 0, 0, 1000);
  agent.monitor_interval =
      Duration{world.integer("monitor_interval_ns", agent.monitor_interval.ns, 1)};
  agent.reassign = world.flag("reassign", false);
  for (const std::int64_t n : world.integers("ranks_after_restart")) {
    if (n >= 1 && n <= scenario.n_ranks) {
      agent.n_ranks_later.push_back(static_cast<std::int32_t>(n));
      continue;
    }
    problem.report("a restarted world has 1 to " + std::to_string(scenario.n_ranks) + " ranks",
                   world.where("ranks_after_restart"));
  }
  for (const std::string_view key : {"monitor_interval_ns", "reassign", "ranks_after_restart"}) {
    if (restarts || !world.has(key)) continue;
    problem.report("'" + world.path(key) + "' needs 'max_restarts'", world.where(key));
  }
  if (restarts) scenario.session.agent = agent;
  scenario.session.disk_seed = scenario.seed;
}

}  // namespace lockstep
