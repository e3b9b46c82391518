// The wait-for graph of a world in which no rank can run.
#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/group/detail/verdict_words.h"

namespace lockstep::sim {

/// What is known while the graph is drawn.
struct WaitForDrawing {
  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr std::size_t kMaxMissing = 16;  // Nodes of ranks that do not wait.

  explicit WaitForDrawing(std::int32_t n_ranks)
      : node_of(static_cast<std::size_t>(n_ranks), kNone) {}

  /// The node of the ranks that meet at `meeting` (null: nowhere) and do `what`; kNone: no room
  /// left.
  std::size_t node(WaitForGraph& graph,
                   const void* meeting,
                   WaitForNode::State state,
                   const std::string& what) {
    const auto [known, is_new] = nodes.try_emplace({meeting, what}, graph.nodes.size());
    if (!is_new) return known->second;
    const bool waits = state == WaitForNode::State::kWaits;
    if (graph.nodes.size() >= WaitForGraph::kMaxNodes + (waits ? 0 : kMaxMissing)) {
      known->second = kNone;
    } else {
      graph.nodes.push_back({.state = state, .what = what, .ranks = {}});
      works.push_back(nullptr);
    }
    return known->second;
  }

  std::map<std::pair<const void*, std::string>, std::size_t> nodes;
  std::vector<std::size_t> node_of;   // By world rank.
  std::vector<const SimWork*> works;  // By node: one of the calls that its ranks wait in.
};

void GroupRegistry::draw(const StuckVerdict& verdict) {
  wait_for_ = {};
  WaitForDrawing drawing(world_->n_ranks());
  draw_waiting(verdict, drawing);
  const std::size_t n_waiting = wait_for_.nodes.size();
  for (std::size_t node = 0; node < n_waiting; ++node) draw_missing(drawing, node);
  for (WaitForNode& node : wait_for_.nodes) std::sort(node.ranks.begin(), node.ranks.end());
  wait_for_.mark_cycles();
}

void GroupRegistry::draw_waiting(const StuckVerdict& verdict, WaitForDrawing& drawing) {
  for (const StuckVerdict::Waiting& waiting : verdict.waiting) {
    const SimWork* work = waiting_on(waiting.rank);
    if (work != nullptr && work->done()) work = nullptr;
    const void* meeting = work;
    bool mismatched = false;
    if (work != nullptr && !is_message(*work)) {
      const MatchSlot* slot = find_slot(work->group().state(), work->seq());
      meeting = slot;
      mismatched = slot != nullptr && slot->hung;
    }
    const std::string what =
        work == nullptr ? std::string(waiting.reason.what) : describe_call(*work);
    const std::size_t node = drawing.node(wait_for_, meeting, WaitForNode::State::kWaits, what);
    if (node == WaitForDrawing::kNone) {
      ++wait_for_.n_left_out;
      continue;
    }
    wait_for_.nodes[node].ranks.push_back(waiting.rank);
    wait_for_.nodes[node].mismatched = mismatched;
    drawing.works[node] = work;
    drawing.node_of[to_index(waiting.rank)] = node;
  }
}

void GroupRegistry::draw_missing(WaitForDrawing& drawing, std::size_t node) {
  const SimWork* work = drawing.works[node];
  if (work == nullptr) return;
  std::map<std::size_t, std::vector<Rank>> missing;
  for (const std::int32_t number : missing_for(*work)) {
    const Rank rank{number};
    std::size_t& to = drawing.node_of[to_index(rank)];
    if (to == WaitForDrawing::kNone) {
      to = drawing.node(wait_for_, nullptr, state_in_graph(rank), state_of(number));
      if (to != WaitForDrawing::kNone) wait_for_.nodes[to].ranks.push_back(rank);
    }
    if (to != WaitForDrawing::kNone) missing[to].push_back(rank);
  }
  for (auto& [to, ranks] : missing) {
    wait_for_.edges.push_back({.from = node, .to = to, .ranks = std::move(ranks)});
  }
}

WaitForNode::State GroupRegistry::state_in_graph(Rank rank) const {
  if (!world_->has_ended(rank)) {
    return world_->is_blocked(rank) ? WaitForNode::State::kWaits : WaitForNode::State::kRunning;
  }
  const bool finished = world_->end_of(rank).outcome == RankOutcome::kFinished;
  return finished ? WaitForNode::State::kEnded : WaitForNode::State::kDied;
}

}  // namespace lockstep::sim
