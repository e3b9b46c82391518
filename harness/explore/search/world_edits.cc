#include "lockstep/harness/explore/search/world_edits.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/format/schema.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/sim/strategy/schedule.h"

namespace lockstep::explore {
namespace {

/// Old rank -> new rank, or -1.
class Renumbering {
 public:
  Renumbering(std::int64_t n_before, const std::vector<std::size_t>& kept)
      : to_(static_cast<std::size_t>(n_before), -1), kept_(kept) {
    for (std::size_t i = 0; i < kept.size(); ++i) to_[kept[i]] = static_cast<std::int64_t>(i);
  }

  std::int64_t operator()(std::int64_t rank) const {
    const bool known = rank >= 0 && rank < static_cast<std::int64_t>(to_.size());
    return known ? to_[static_cast<std::size_t>(rank)] : -1;
  }

  const std::vector<std::size_t>& kept() const { return kept_; }

  std::int64_t n_before() const { return static_cast<std::int64_t>(to_.size()); }

  std::int64_t n_after() const { return static_cast<std::int64_t>(kept_.size()); }

 private:
  std::vector<std::int64_t> to_;
  std::vector<std::size_t> kept_;
};

/// Renumbers a list of ranks. False: it named some, and none of them is left.
bool renumber(TomlNode& list, const Renumbering& to) {
  const bool named = !list.items.empty();
  std::vector<TomlNode> left;
  left.reserve(list.items.size());
  for (const TomlNode& item : list.items) {
    const std::int64_t rank = to(item.integer);
    if (rank >= 0) left.push_back(integer_node(rank));
  }
  list.items = std::move(left);
  return !named || !list.items.empty();
}

/// Of a list with an entry for each rank, the entries of those that are left.
void select(TomlNode& list, const Renumbering& to) {
  if (static_cast<std::int64_t>(list.items.size()) != to.n_before()) return;
  std::vector<TomlNode> left;
  left.reserve(to.kept().size());
  for (const std::size_t rank : to.kept()) left.push_back(std::move(list.items[rank]));
  list.items = std::move(left);
}

void renumber_groups(TomlNode& document, const Renumbering& to) {
  TomlNode* groups = find_at(document, "world.groups");
  if (groups == nullptr) return;
  for (TomlField& group : groups->fields) {
    std::vector<TomlNode>& lists = group.value.items;
    std::erase_if(lists, [&](TomlNode& list) { return !renumber(list, to); });
  }
}

/// A factor that is the number of ranks, or one over it, stays that.
void follow_factor(TomlNode& node, const Renumbering& to) {
  const auto before = static_cast<double>(to.n_before());
  const auto after = static_cast<double>(to.n_after());
  if (node.number == before) {
    node = number_node(after);
  } else if (node.number == 1.0 / before) {
    node = number_node(1.0 / after);
  }
}

void limit(TomlNode& sizes, const Renumbering& to) {
  for (TomlNode& item : sizes.items) item = integer_node(std::min(item.integer, to.n_after()));
}

/// Renumbers one place; false: what the place belongs to is gone with its ranks.
bool follow(const DocumentEntry& place, TomlNode& node, const Renumbering& to) {
  const SchemaField* field = place.is_item ? nullptr : find_field(place.name);
  const RankLink link = field == nullptr ? RankLink::kNone : field->rank_link;
  const bool is_list = node.is_array();
  const bool is_rank = node.kind == TomlNode::Kind::kInteger;
  if (link == RankLink::kNames && is_list) return renumber(node, to);
  if (link == RankLink::kPerRank && is_list) select(node, to);
  if (link == RankLink::kSizes && is_list) limit(node, to);
  if (link == RankLink::kFactor && !is_list) follow_factor(node, to);
  if (link == RankLink::kRoot && is_rank) {
    node = integer_node(std::max<std::int64_t>(to(node.integer), 0));
  }
  if (link != RankLink::kPartner || !is_rank) return true;
  const std::int64_t peer = to(node.integer);
  if (peer >= 0) node = integer_node(peer);
  return peer >= 0;
}

/// Tensors that hold a part for each rank, by the operations of the programs.
std::set<std::string> parted_tensors(const TomlNode& document) {
  std::set<std::string> names;
  for (const DocumentEntry& place : entries_of(document)) {
    const TomlNode& node = node_at(document, place.path);
    const TomlNode* op = node.is_table() ? node.find("op") : nullptr;
    if (op == nullptr) continue;
    const std::optional<RawOpKind> kind = parse_enum<RawOpKind>(op->text);
    const bool gathers = kind == RawOpKind::kAllGather || kind == RawOpKind::kGather;
    const bool scatters = kind == RawOpKind::kScatter || kind == RawOpKind::kReduceScatter;
    const bool both = kind == RawOpKind::kAllToAll;
    const TomlNode* output = node.find("output");
    const TomlNode* tensor = node.find("tensor");
    if ((gathers || both) && output != nullptr) names.insert(output->text);
    if ((scatters || both) && tensor != nullptr) names.insert(tensor->text);
  }
  return names;
}

void scale_parted_tensors(TomlNode& document, const Renumbering& to) {
  for (const std::string& name : parted_tensors(document)) {
    TomlNode* shape = find_at(document, "tensor." + name + ".shape");
    if (shape == nullptr || shape->items.empty()) continue;
    const std::int64_t size = shape->items.front().integer;
    if (size % to.n_before() != 0) continue;
    shape->items.front() = integer_node(size / to.n_before() * to.n_after());
  }
}

/// The action after renumbering; nothing when it was one of a rank that is gone.
std::optional<sim::ActionId> renumbered(sim::ActionId id, const Renumbering& to) {
  const auto number = static_cast<std::uint64_t>(id);
  if (number >> 60U != 0) return id;
  const std::int64_t rank = to(static_cast<std::int64_t>(number));
  if (rank < 0) return std::nullopt;
  return static_cast<sim::ActionId>(static_cast<std::uint64_t>(rank));
}

void renumber_schedule(TomlNode& document, const Renumbering& to) {
  TomlNode* strategy = find_at(document, "sim.strategy");
  if (strategy == nullptr) return;
  const auto decoded = sim::decode_schedule(strategy->text);
  if (!decoded.ok()) return;
  sim::Schedule schedule = decoded.value();
  schedule.deviations.clear();
  for (const sim::Deviation& deviation : decoded.value().deviations) {
    const auto expected = renumbered(deviation.expected, to);
    const auto picked = renumbered(deviation.picked, to);
    if (expected && picked) schedule.deviations.push_back({*expected, deviation.op, *picked});
  }
  *strategy = text_node(sim::encode_schedule(schedule));
}

}  // namespace

WorldSize world_size(const TomlNode& document) {
  WorldSize size;
  const auto number = [&](const char* path) -> std::int64_t {
    const TomlNode* node = find_at(document, path);
    return node == nullptr ? 0 : node->integer;
  };
  size.ranks = std::max<std::int64_t>(number("world.ranks"), 1);
  if (number("world.nodes") + number("world.ranks_per_node") == 0) return size;
  size.nodes = std::max<std::int64_t>(number("world.nodes"), 1);
  size.ranks_per_node = std::max<std::int64_t>(number("world.ranks_per_node"), 1);
  size.ranks = size.nodes * size.ranks_per_node;
  return size;
}

TomlNode keep_ranks(const TomlNode& document, const std::vector<std::size_t>& kept) {
  const Renumbering to(world_size(document).ranks, kept);
  TomlNode result = copy_of(document);
  std::set<Path> gone;
  std::vector<DocumentEntry> places = entries_of(document);
  // What is inside comes before what holds it: a list that loses items moves the others.
  std::reverse(places.begin(), places.end());
  for (const DocumentEntry& place : places) {
    if (place.name.starts_with("world.groups.") || place.path.size() < 2) continue;
    if (!follow(place, node_at(result, place.path), to)) {
      gone.insert(Path(place.path.begin(), place.path.end() - 1));
    }
  }
  result = without(result, {gone.begin(), gone.end()});
  renumber_groups(result, to);
  renumber_schedule(result, to);
  scale_parted_tensors(result, to);
  drop(result, "world.nodes");
  drop(result, "world.ranks_per_node");
  put(result, "world.ranks", integer_node(to.n_after()));
  return result;
}

TomlNode keep_nodes(const TomlNode& document, std::int64_t nodes, std::int64_t ranks_per_node) {
  const WorldSize before = world_size(document);
  std::vector<std::size_t> kept;
  for (std::int64_t rank = 0; rank < before.ranks; ++rank) {
    const bool there =
        rank / before.ranks_per_node < nodes && rank % before.ranks_per_node < ranks_per_node;
    if (there) kept.push_back(static_cast<std::size_t>(rank));
  }
  TomlNode result = keep_ranks(document, kept);
  drop(result, "world.ranks");
  put(result, "world.nodes", integer_node(nodes));
  put(result, "world.ranks_per_node", integer_node(ranks_per_node));
  return result;
}

}  // namespace lockstep::explore
