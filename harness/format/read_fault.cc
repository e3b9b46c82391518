// fault = [...]: what goes wrong in the simulated world, and where.
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::array<std::string_view, 13> kFaultWords = {"crash",
                                                          "hang",
                                                          "late",
                                                          "slow",
                                                          "disk-full",
                                                          "torn-write",
                                                          "clock-skew",
                                                          "lose",
                                                          "delay",
                                                          "duplicate",
                                                          "corrupt",
                                                          "stale",
                                                          "link-down"};
constexpr std::string_view kSkew = "clock-skew";
constexpr std::string_view kCut = "link-down";

/// One fault as it is written.
struct FaultTable {
  std::string kind;
  std::string how{name_of(sim::FaultKind::kSigkill)};
  sim::Fault fault;
  double factor = 1.0;
  Duration skew{};
  sim::Outage outage;
};

/// All but faults of clocks and links strike at a place.
Words placed_kinds() {
  Words kinds(kFaultWords.begin(), kFaultWords.end());
  std::erase(kinds, kSkew);
  std::erase(kinds, kCut);
  return kinds;
}

void add_effects(Section<FaultTable>& it) {
  const auto fault = [](auto member) { return in(&FaultTable::fault, member); };
  it.add("how", &FaultTable::how, "How the rank ends.")
      .words({"exception", "exit", "sigkill", "sigterm", "oom"})
      .of(Words{"crash"});
  it.add("code", fault(&sim::Fault::code), "exit: the process's code.")
      .between(1, 255)
      .of(Words{"crash"});
  it.add("grace_ns", fault(&sim::Fault::grace), "sigterm: how long the rank continues first.")
      .of(Words{"crash"});
  it.add("fate", fault(&sim::Fault::fate), "What happens to unsynced data on the disk.")
      .of(Words{"crash", "torn-write"});
  it.add("delay_ns", fault(&sim::Fault::delay), "How long it pauses, or its contribution takes.")
      .preset(Duration{1'000'000})
      .at_least(1)
      .of(Words{"late", "delay"});
  it.add("factor", &FaultTable::factor, "How many times as long products take.")
      .preset(2.0)
      .links(RankLink::kFactor)
      .from(0.001)
      .to(1e6)
      .of(Words{"slow"});
  it.add("for_ns", fault(&sim::Fault::lasting), "For how long; 0: to the end.").of(Words{"slow"});
  it.add("element", fault(&sim::Fault::element), "Of the contribution, modulo its elements.")
      .of(Words{"corrupt"})
      .stays();
  it.add("bit", fault(&sim::Fault::bit), "Of the element, 0 is the lowest.")
      .at_most(63)
      .of(Words{"corrupt"});
  it.either("side",
            fault(&sim::Fault::result),
            "before",
            "after",
            "A bit of what the rank gives flips, or of what it receives.")
      .of(Words{"corrupt"});
}

void add_clocks_and_links(Section<FaultTable>& it) {
  const auto outage = [](auto member) { return in(&FaultTable::outage, member); };
  it.add("skew_ns", &FaultTable::skew, "How far the clock is ahead.")
      .at_least(-TableReader::kMost)
      .of(Words{kSkew});
  it.code("peers", FieldType::kRanks, "The other side of the cut.")
      .shown("all others")
      .of(Words{kCut});
  it.add("time_ns", outage(&sim::Outage::from_ns), "When the link goes down.")
      .in_unit("ns")
      .of(Words{kCut});
  it.add("for_ns", outage(&sim::Outage::for_ns), "For how long; 0: for good.")
      .in_unit("ns")
      .of(Words{kCut});
  it.add("period_ns",
         outage(&sim::Outage::period_ns),
         "It goes down again this long after it last went down; 0: once.")
      .in_unit("ns")
      .of(Words{kCut});
}

const Section<FaultTable>& fault_section() {
  static const Section<FaultTable> section(
      "fault",
      [](Section<FaultTable>& it) {
        it.add("kind", &FaultTable::kind, "What goes wrong.")
            .words({kFaultWords.begin(), kFaultWords.end()})
            .selects()
            .required();
        it.code("ranks", FieldType::kRanks, "Whom it strikes.").required().stays();
        add_effects(it);
        add_clocks_and_links(it);
        it.code("time_ns", FieldType::kInteger, "When it strikes; instead of `at`.")
            .between(0, TableReader::kMost)
            .in_unit("ns")
            .of(placed_kinds());
        it.code("at", FieldType::kTable, "Where it strikes.").of(placed_kinds()).stays();
        it.add("attempt",
               in(&FaultTable::fault, &sim::Fault::attempt),
               "The run of the job it belongs to, counted from 0.")
            .of(placed_kinds())
            .counts()
            .stays();
      },
      SectionShape::kList);
  return section;
}

/// A place as it is written: what is absent differs from what has the default.
struct FaultPlace {
  std::optional<std::uint64_t> number;
  std::optional<std::uint64_t> file_step;
  std::optional<std::int64_t> step;
  std::string event = "forward";
  CollectivePhase when = CollectivePhase::kPosted;
  std::int64_t nth = 0;
};

const Section<FaultPlace>& fault_place_section() {
  using Place = FaultPlace;
  static const Section<Place> section("fault.at", [](Section<Place>& it) {
    it.add("number", &Place::number, "The rank's event of that number; instead of the others.")
        .at_most(TableReader::kMost)
        .counts();
    it.add("file_step",
           &Place::file_step,
           "Before its file operation of that number; instead of the others.")
        .at_most(TableReader::kMost)
        .counts();
    it.add("step", &Place::step, "In this optimizer step; absent: in any.").counts();
    it.add("event", &Place::event, "A kind of [event](../trace_format.md), or an operation.")
        .words({"wrap",       "forward",        "backward", "batch",
                "grad",       "param",          "buffer",   "optimizer",
                "step",       "bucket",         "sample",   "epoch",
                "phase",      "metric",         "decision", "log",
                "end",        "snapshot",       "rng",      "group",
                "collective", "broadcast",      "reduce",   "all_reduce",
                "all_gather", "reduce_scatter", "gather",   "scatter",
                "barrier",    "all_to_all",     "send",     "recv"});
    it.add("when", &Place::when, "As the collective is posted, or as it ends.")
        .words({"posted", "completed"});
    it.add("nth", &Place::nth, "The event of this number among those.").counts();
    it.all_stays();
  });
  return section;
}

sim::FaultKind crash_kind(const std::string& how) {
  if (how == "oom") return sim::FaultKind::kOutOfMemory;
  return parse_enum<sim::FaultKind>(how).value_or(sim::FaultKind::kSigkill);
}

void read_event_place(const TomlNode& node, sim::Fault& fault, Problem& problem) {
  TableReader table(node, fault_place_section().name(), problem);
  FaultPlace at;
  fault_place_section().read(table, at);
  table.finish();
  const bool counted = at.number || at.file_step;
  fault.event = at.number;
  fault.file_step = at.file_step;
  fault.step = at.step;
  if (!counted) fault.at = sim::Occasion::named(at.event);
  fault.when = at.when;
  fault.nth = at.nth;
  if (counted && (at.step || table.has("event") || (at.number && at.file_step))) {
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

void skew_clocks(const RankSet& ranks, Duration skew, Scenario& scenario) {
  std::vector<Duration>& skews = scenario.session.clock_skews;
  skews.resize(static_cast<std::size_t>(scenario.n_ranks));
  for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
    if (ranks.contains(rank)) skews[static_cast<std::size_t>(rank)] = skew;
  }
}

void cut_links(TableReader& table,
               const RankSet& ranks,
               sim::Outage outage,
               Scenario& scenario,
               Problem& problem) {
  outage.ranks = ranks.ranks;
  if (const TomlNode* peers = table.array("peers")) {
    outage.peers = ranks_of(*peers, scenario.n_ranks, problem);
  }
  if (ranks.all) problem.report("a link goes from some 'ranks' to others", table.where("ranks"));
  if (outage.period_ns > 0 && outage.period_ns <= outage.for_ns) {
    problem.report("a link that flaps is up for a time: 'period_ns' is longer than 'for_ns'",
                   table.where("period_ns"));
  }
  scenario.session.group.net.outages.push_back(std::move(outage));
  scenario.session.timed = true;
}

bool is_collective_place(const sim::Fault& fault) {
  return fault.at && fault.at->is_of_groups() && fault.when == CollectivePhase::kPosted;
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

/// A fault of a rank, which strikes at a place.
void plan_fault(TableReader& table,
                const TomlNode& node,
                const RankSet& ranks,
                FaultTable given,
                Scenario& scenario) {
  sim::Fault fault = std::move(given.fault);
  const bool crashes = given.kind == "crash";
  fault.kind = crashes ? crash_kind(given.how)
                       : parse_enum<sim::FaultKind>(given.kind).value_or(sim::FaultKind::kSigkill);
  fault.permille = std::llround(given.factor * 1000.0);
  read_fault_place(table, fault, table.problem());
  table.finish();
  check_fault(fault, scenario, node, table.problem());
  for (fault.rank = 0; fault.rank < scenario.n_ranks; ++fault.rank) {
    if (ranks.contains(fault.rank)) scenario.session.faults.push_back(fault);
  }
}

void read_fault(const TomlNode& node, Scenario& scenario, Problem& problem) {
  if (!node.is_table()) {
    return problem.report(
        "a fault is a table: { kind = \"crash\", ranks = [1], at = { step = 3 } }", node.where);
  }
  TableReader table(node, fault_section().name(), problem);
  FaultTable given;
  given.kind = table.text("kind", "");
  if (std::find(kFaultWords.begin(), kFaultWords.end(), given.kind) == kFaultWords.end()) {
    return problem.report(
        "unknown fault '" + given.kind + "'" + did_you_mean(given.kind, kFaultWords),
        table.where("kind"));
  }
  fault_section().read(table, given);
  if (!table.has("ranks")) {
    problem.report("a fault needs 'ranks': [1], or \"all\"", node.where);
  }
  const RankSet ranks = read_ranks(table, scenario.n_ranks, problem);
  if (given.kind != kSkew && given.kind != kCut) {
    return plan_fault(table, node, ranks, std::move(given), scenario);
  }
  if (given.kind == kSkew) skew_clocks(ranks, given.skew, scenario);
  if (given.kind == kCut) cut_links(table, ranks, std::move(given.outage), scenario, problem);
  table.finish();
}

}  // namespace

std::vector<SchemaSection> fault_sections() {
  return {fault_section().described(), fault_place_section().described()};
}

void read_faults(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* list = root.array("fault");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) read_fault(node, scenario, problem);
}

}  // namespace lockstep
