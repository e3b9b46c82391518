// The wait-for graph of a world in which no rank can run.
#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

namespace lockstep::sim {

namespace {

class WaitForDrawing {
 public:
  explicit WaitForDrawing(GroupRegistry& registry)
      : ranks_(&registry.ranks()),
        node_of_(static_cast<std::size_t>(registry.world().n_ranks()), kNone) {}

  WaitForGraph draw(const StuckVerdict& verdict) {
    for (const StuckVerdict::Waiting& waiting : verdict.waiting) draw_waiting(waiting);
    const std::size_t n_waiting = graph_.nodes.size();
    for (std::size_t node = 0; node < n_waiting; ++node) draw_missing(node);
    for (WaitForNode& node : graph_.nodes) std::sort(node.ranks.begin(), node.ranks.end());
    graph_.mark_cycles();
    return std::move(graph_);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr std::size_t kMaxMissing = 16;  // Nodes of ranks that do not wait.

  /// The node of the ranks that meet at `meeting` (null: nowhere) and do `what`; kNone: no room
  /// left.
  std::size_t node(const void* meeting, WaitForNode::State state, const std::string& what) {
    const auto [known, is_new] = nodes_.try_emplace({meeting, what}, graph_.nodes.size());
    if (!is_new) return known->second;
    const bool waits = state == WaitForNode::State::kWaits;
    if (graph_.nodes.size() >= WaitForGraph::kMaxNodes + (waits ? 0 : kMaxMissing)) {
      known->second = kNone;
    } else {
      graph_.nodes.push_back({.state = state, .what = what, .ranks = {}});
      works_.push_back(nullptr);
    }
    return known->second;
  }

  void draw_waiting(const StuckVerdict::Waiting& waiting) {
    const SimWork* work = ranks_->waiting_on(waiting.rank);
    if (work != nullptr && work->done()) work = nullptr;
    const MatchSlot* slot = work == nullptr ? nullptr : slot_of(*work);
    const void* meeting = slot;
    if (work != nullptr && is_message(*work)) meeting = work;
    const std::string what =
        work == nullptr ? std::string(waiting.reason.what) : describe_call(*work);
    const std::size_t place = node(meeting, WaitForNode::State::kWaits, what);
    if (place == kNone) {
      ++graph_.n_left_out;
      return;
    }
    graph_.nodes[place].ranks.push_back(waiting.rank);
    graph_.nodes[place].mismatched = slot != nullptr && slot->hung;
    works_[place] = work;
    node_of_[to_index(waiting.rank)] = place;
  }

  void draw_missing(std::size_t from) {
    const SimWork* work = works_[from];
    if (work == nullptr) return;
    std::map<std::size_t, std::vector<Rank>> missing;
    for (const std::int32_t number : ranks_->missing_for(*work)) {
      const Rank rank{number};
      std::size_t& to = node_of_[to_index(rank)];
      if (to == kNone) {
        to = node(nullptr, ranks_->state_in_graph(rank), ranks_->state_of(number));
        if (to != kNone) graph_.nodes[to].ranks.push_back(rank);
      }
      if (to != kNone) missing[to].push_back(rank);
    }
    for (auto& [to, ranks] : missing) {
      graph_.edges.push_back({.from = from, .to = to, .ranks = std::move(ranks)});
    }
  }

  const RankStates* ranks_;
  WaitForGraph graph_;
  std::map<std::pair<const void*, std::string>, std::size_t> nodes_;
  std::vector<std::size_t> node_of_;   // By world rank.
  std::vector<const SimWork*> works_;  // By node: one of the calls that its ranks wait in.
};

}  // namespace

WaitForGraph draw_wait_for(GroupRegistry& registry, const StuckVerdict& verdict) {
  return WaitForDrawing(registry).draw(verdict);
}

}  // namespace lockstep::sim
