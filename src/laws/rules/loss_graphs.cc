#include "lockstep/laws/rules/detail/losses/loss_graphs.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kAfterLeaves = ": ";

/// "4 parameters".
std::string_view leaves_of(std::string_view graph) {
  return graph.substr(0, graph.find(kAfterLeaves));
}

/// The operations of one graph.
std::set<std::string_view> operations_in(std::string_view graph) {
  graph.remove_prefix(std::min(leaves_of(graph).size() + kAfterLeaves.size(), graph.size()));
  constexpr std::string_view kBetween = ", ";
  std::set<std::string_view> operations;
  while (!graph.empty()) {
    const std::size_t end = std::min(graph.find(kBetween), graph.size());
    operations.insert(graph.substr(0, end));
    graph.remove_prefix(std::min(end + kBetween.size(), graph.size()));
  }
  return operations;
}

/// Those that not all of the graphs have.
std::string rest_of(const std::set<std::string_view>& operations,
                    const std::vector<std::set<std::string_view>>& all) {
  std::string text;
  for (const std::string_view operation : operations) {
    const bool common = std::ranges::all_of(
        all, [operation](const auto& other) { return other.contains(operation); });
    if (common) continue;
    if (!text.empty()) text += ", ";
    text += operation;
  }
  return text.empty() ? "none of these" : text;
}

}  // namespace

void LossGraphs::on_loss(const Event& event, const LossEvent& loss) {
  if (loss.graph == kNoName) return;
  const auto [known, is_first] =
      seen_[wrapper_of(event.at)].try_emplace(to_int(event.rank), Seen{.graph = loss.graph});
  if (is_first) return;
  Seen& seen = known->second;
  ++seen.n;
  seen.varies = seen.varies || seen.graph != loss.graph;
}

std::map<NameId, std::vector<Rank>> LossGraphs::sides_of(const SeenByRank& by_rank) {
  std::map<NameId, std::vector<Rank>> sides;
  for (const auto& [rank, seen] : by_rank) {
    if (seen.varies || seen.n == 1) return {};
    sides[seen.graph].push_back(Rank{rank});
  }
  return sides;
}

std::vector<Advice> LossGraphs::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, by_rank] : seen_) {
    const auto sides = sides_of(by_rank);
    if (sides.size() < 2) continue;
    // Ranks that use parts of their own of a model are meant to, or their reductions would not fit.
    const std::string_view leaves = leaves_of(names.text(sides.begin()->first));
    const bool use_the_same = std::ranges::all_of(
        sides, [&](const auto& side) { return leaves_of(names.text(side.first)) == leaves; });
    if (!use_the_same) continue;
    std::vector<std::set<std::string_view>> all;
    for (const auto& [graph, ranks] : sides) all.push_back(operations_in(names.text(graph)));
    std::string list;
    std::size_t nth = 0;
    for (const auto& [graph, ranks] : sides) {
      if (!list.empty()) list += "; ";
      list += rest_of(all[nth++], all) + " on " + ranks_text(ranks);
    }
    advice.push_back({"A-operations-differ",
                      "the ranks' first backward passes run different operations, the same ones in "
                      "every step: " +
                          list + ". Their gradients are averaged as if they came from one model."});
  }
  return advice;
}

}  // namespace lockstep::laws
