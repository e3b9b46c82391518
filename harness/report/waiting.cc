// Who waits for whom, and what each rank did last.
#include <algorithm>
#include <map>

#include "lockstep/harness/report/detail/sections.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/timeline.h"

namespace lockstep::page {

namespace {

constexpr std::size_t kMaxLastRows = 128;

std::string_view state_word(sim::WaitForNode::State state) {
  switch (state) {
    case sim::WaitForNode::State::kWaits:
      return "waits";
    case sim::WaitForNode::State::kEnded:
      return "ended";
    case sim::WaitForNode::State::kDied:
      return "died";
    case sim::WaitForNode::State::kRunning:
      return "late";
  }
  return "";
}

std::string waits_for_text(const sim::WaitForGraph& graph, std::size_t node) {
  std::string text;
  for (const sim::WaitForEdge& edge : graph.edges) {
    if (edge.from != node) continue;
    text += (text.empty() ? "" : "; ") + ranks_text(edge.ranks);
    if (edge.in_cycle) text += " (in a circle)";
  }
  return text.empty() ? "no known rank" : text;
}

void write_graph(const sim::WaitForGraph& graph, const std::string& id, Html& out) {
  out.open_scroll("Who waits for whom, as a picture");
  out.raw(sim::render_svg(graph, "Who waits for whom", id + "-head"));
  out.close("div");
  out.open_table("Who waits for whom", {"Ranks", "State", "Where", "Waits for"});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const sim::WaitForNode& node = graph.nodes[i];
    const bool waits = node.state == sim::WaitForNode::State::kWaits;
    out.row({ranks_text(node.ranks),
             std::string(state_word(node.state)),
             node.what,
             waits ? waits_for_text(graph, i) : ""});
  }
  out.close_table();
  if (graph.n_left_out > 0) {
    out.element("p",
                counted(static_cast<std::int64_t>(graph.n_left_out), "more rank") + " not shown.",
                {{"class", "thinned"}});
  }
}

std::string site_of(const TimelineEntry& entry) {
  for (const TimelineFact& fact : entry.facts) {
    if (fact.key == "site") return fact.value;
  }
  return {};
}

struct LastOfRank {
  std::string open_calls;
  std::string ending = "no end recorded";
};

/// A call that failed or never completed.
std::string open_call(const TimelineEntry& call) {
  const std::string site = site_of(call);
  return call.name + (site.empty() ? "" : " at " + site) + " (" + call.status + ")";
}

/// How a rank ended, by the entry that says so.
std::string ending_of(const TimelineEntry& end) {
  std::string ending = end.name.substr(end.name.find(' ') + 1);
  const std::string detail = end.facts.empty() ? "" : end.facts.front().value;
  if (!detail.empty() && detail != ending) ending += ": " + detail;
  return ending;
}

std::map<std::int32_t, LastOfRank> last_of_ranks(const MemoryTrace& trace) {
  std::map<std::int32_t, LastOfRank> ranks;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) ranks[r];
  for (const TimelineEntry& entry : timeline_entries(trace).entries) {
    LastOfRank& last = ranks[entry.rank];
    if (entry.kind == TimelineEntry::Kind::kCall && entry.failed) {
      last.open_calls += (last.open_calls.empty() ? "" : "; ") + open_call(entry);
    } else if (entry.category == TimelineCategory::kEnd) {
      last.ending = ending_of(entry);
    }
  }
  return ranks;
}

void write_last(const MemoryTrace& trace, Html& out) {
  const auto ranks = last_of_ranks(trace);
  out.open_table("What each rank did last",
                 {"Rank", "Calls that failed or never completed", "Its end"});
  std::size_t n_rows = 0;
  for (const auto& [rank, last] : ranks) {
    if (++n_rows > kMaxLastRows) break;
    out.row({"rank " + std::to_string(rank),
             last.open_calls.empty() ? "none" : last.open_calls,
             last.ending});
  }
  out.close_table();
  if (ranks.size() > kMaxLastRows) {
    out.element("p",
                "Showing the first " + std::to_string(kMaxLastRows) + " of " +
                    std::to_string(ranks.size()) + " ranks.",
                {{"class", "thinned"}});
  }
}

}  // namespace

void write_waiting(const RunView& run, const std::string& id, Html& out) {
  if (is_complete(run.report->outcome)) return;
  const bool hangs = run.report->outcome == RunOutcome::kHang;
  out.open_section(id + "-waiting", hangs ? "Who waits for whom" : "How ranks ended");
  const bool drawn = run.wait_for != nullptr && !run.wait_for->empty();
  if (drawn) write_graph(*run.wait_for, id, out);
  if (!drawn && hangs) {
    out.element(
        "p", "A trace does not say who waits for whom; the calls below failed or never completed.");
  }
  if (!run.report->wait_for_graph.empty()) {
    out.open("pre", {{"tabindex", "0"}}).text(run.report->wait_for_graph).close("pre");
  }
  write_last(*run.trace, out);
  out.close("section");
}

}  // namespace lockstep::page
