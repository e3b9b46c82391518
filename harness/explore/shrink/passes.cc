#include "lockstep/harness/explore/shrink/passes.h"

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/harness/explore/search/model_edits.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/search/world_edits.h"
#include "lockstep/harness/format/schema.h"
#include "lockstep/sim/strategy/schedule.h"

namespace lockstep::explore {
namespace {

bool must_stay(const DocumentEntry& place) {
  const SchemaField* field = find_field(place.name);
  const SchemaSection* section = find_section(place.name);
  return (field != nullptr && field->stays) || (section != nullptr && section->stays);
}

/// A table whose removal would take a key along that must stay.
bool holds_what_stays(const DocumentEntry& place, const TomlNode& document) {
  const SchemaSection* section = find_section(place.name);
  if (section == nullptr || section->shape != SectionShape::kTable) return false;
  const TomlNode& table = node_at(document, place.path);
  return std::any_of(section->fields.begin(), section->fields.end(), [&](const auto* field) {
    return field->stays && table.find(field->key) != nullptr;
  });
}

bool shrinks_as(const DocumentEntry& place, Shrinking shrinking) {
  const SchemaField* field = find_field(place.name);
  return (field == nullptr ? Shrinking::kFree : field->shrinking) == shrinking;
}

std::vector<Path> removable_at(const TomlNode& document, std::size_t depth) {
  std::vector<Path> paths;
  for (const DocumentEntry& place : entries_of(document)) {
    if (place.path.size() != depth || place.is_item || must_stay(place)) continue;
    if (!holds_what_stays(place, document)) paths.push_back(place.path);
  }
  return paths;
}

/// The paths whose numbers are not in `kept`, which is ascending.
std::vector<Path> others(const std::vector<Path>& paths, const std::vector<std::size_t>& kept) {
  std::vector<Path> rest;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!std::binary_search(kept.begin(), kept.end(), i)) rest.push_back(paths[i]);
  }
  return rest;
}

std::vector<std::string> names_of_lists(const TomlNode& document) {
  std::vector<std::string> names;
  for (const DocumentEntry& place : entries_of(document)) {
    const bool is_array = node_at(document, place.path).is_array();
    if (is_array && !shrinks_as(place, Shrinking::kWhole)) names.push_back(place.name);
  }
  return names;
}

std::optional<DocumentEntry> entry_named(const TomlNode& document, const std::string& name) {
  for (DocumentEntry& place : entries_of(document)) {
    if (place.name == name) return std::move(place);
  }
  return std::nullopt;
}

/// Offers shorter versions of one list. A list of ranks never becomes empty, which may mean all.
void shrink_list(Shrinker& shrinker, const std::string& name) {
  const TomlNode base = copy_of(shrinker.best());
  const std::optional<DocumentEntry> place = entry_named(base, name);
  if (!place || !node_at(base, place->path).is_array()) return;
  const SchemaField* field = find_field(name);
  const bool names_ranks = field != nullptr && field->rank_link == RankLink::kNames;
  const std::size_t n = node_at(base, place->path).items.size();
  std::vector<Path> items;
  items.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    items.push_back(place->path);
    items.back().push_back(i);
  }
  minimize(n, [&](const std::vector<std::size_t>& kept) {
    if (names_ranks && kept.empty()) return false;
    return shrinker.offer(without(base, others(items, kept)));
  });
}

/// The smallest value between 0 and the present one for which the document still fails, as far as
/// halving finds it.
void shrink_integer(Shrinker& shrinker, const Path& path) {
  const std::int64_t present = node_at(shrinker.best(), path).integer;
  const auto offer = [&](std::int64_t value) {
    TomlNode candidate = copy_of(shrinker.best());
    node_at(candidate, path) = integer_node(value);
    return shrinker.offer(std::move(candidate));
  };
  if (present <= 0 || offer(0)) return;
  std::int64_t fails = present;
  std::int64_t too_small = 0;
  for (std::int64_t next = 1; fails - too_small > 1; next = too_small + (fails - too_small) / 2) {
    if (offer(next)) {
      fails = next;
    } else {
      too_small = next;
    }
  }
}

void shrink_nodes(Shrinker& shrinker) {
  const WorldSize size = world_size(shrinker.best());
  if (size.nodes == 0) return;
  for (std::int64_t nodes = 1; nodes <= size.nodes; ++nodes) {
    for (std::int64_t per_node = 1; per_node <= size.ranks_per_node; ++per_node) {
      if (nodes * per_node >= size.ranks) continue;
      if (shrinker.offer(keep_nodes(shrinker.best(), nodes, per_node))) return;
    }
  }
}

/// Fewer rows of data that are made: where the file names no number of them, too.
void shrink_rows(Shrinker& shrinker) {
  constexpr std::array<std::int64_t, 8> kFew = {1, 2, 3, 4, 6, 8, 16, 32};
  const TomlNode* kind = find_at(shrinker.best(), "data.kind");
  if (kind == nullptr || parse_enum<DataKind>(kind->text) != DataKind::kSynthetic) return;
  for (const std::int64_t n : kFew) {
    TomlNode candidate = copy_of(shrinker.best());
    put(candidate, "data.size", integer_node(n));
    if (shrinker.offer(std::move(candidate))) return;
  }
}

void offer_first(Shrinker& shrinker, std::vector<TomlNode> candidates) {
  for (TomlNode& candidate : candidates) {
    if (shrinker.offer(std::move(candidate))) return;
  }
}

/// Fewer than `n_now` features or outputs.
void shrink_columns(Shrinker& shrinker,
                    TomlNode (*with)(const TomlNode&, std::int64_t),
                    std::int64_t n_now) {
  constexpr std::int64_t kFew = 4;
  for (std::int64_t n = 1; n < n_now && n <= kFew; ++n) {
    if (shrinker.offer(with(shrinker.best(), n))) return;
  }
}

const Job* first_job(const Scenario& scenario) {
  return scenario.jobs.empty() ? nullptr : scenario.jobs.front().get();
}

}  // namespace

void shrink_schedule(Shrinker& shrinker) {
  const TomlNode base = copy_of(shrinker.best());
  const TomlNode* strategy = find_at(base, "sim.strategy");
  if (strategy == nullptr) return;
  const auto decoded = sim::decode_schedule(strategy->text);
  if (!decoded.ok()) return;
  const std::vector<sim::Deviation>& all = decoded.value().deviations;
  minimize(all.size(), [&](const std::vector<std::size_t>& kept) {
    sim::Schedule fewer;
    for (const std::size_t i : kept) fewer.deviations.push_back(all[i]);
    TomlNode candidate = copy_of(base);
    put(candidate, "sim.strategy", text_node(sim::encode_schedule(fewer)));
    return shrinker.offer(std::move(candidate));
  });
}

void shrink_steps(Shrinker& shrinker) {
  if (find_at(shrinker.best(), "program") != nullptr) return;
  constexpr std::array<std::int64_t, 9> kFew = {1, 2, 3, 4, 6, 8, 12, 16, 32};
  for (const std::int64_t steps : kFew) {
    TomlNode candidate = copy_of(shrinker.best());
    drop(candidate, "loop.epochs");
    put(candidate, "loop.steps", integer_node(steps));
    if (shrinker.offer(std::move(candidate))) return;
  }
}

void shrink_world(Shrinker& shrinker) {
  const TomlNode base = copy_of(shrinker.best());
  const auto n_ranks = static_cast<std::size_t>(world_size(base).ranks);
  minimize(n_ranks, [&](const std::vector<std::size_t>& kept) {
    if (kept.empty()) return false;
    TomlNode fewer = keep_ranks(base, kept);
    // The same number of rows per rank as before: an epoch keeps its length.
    TomlNode with_fewer_rows = copy_of(fewer);
    if (TomlNode* size = find_at(with_fewer_rows, "data.size")) {
      const auto n_kept = static_cast<std::int64_t>(kept.size());
      *size = integer_node(size->integer * n_kept / static_cast<std::int64_t>(n_ranks));
    }
    return shrinker.offer(std::move(fewer)) || shrinker.offer(std::move(with_fewer_rows));
  });
  shrink_nodes(shrinker);
}

void shrink_job(Shrinker& shrinker) {
  const Result<Scenario> scenario = scenario_of(shrinker.best(), shrinker.path());
  const Job* job = scenario.ok() ? first_job(scenario.value()) : nullptr;
  if (job == nullptr) return;
  offer_first(shrinker, plainer_data(shrinker.best(), *job));
  offer_first(shrinker, plainer_models(shrinker.best(), *job));
  shrink_rows(shrinker);
  shrink_columns(shrinker, with_features, job->train->feature_columns());
  shrink_columns(shrinker, with_outputs, job->model.widths.back());
}

void drop_keys(Shrinker& shrinker) {
  constexpr std::size_t kDeepest = 6;
  for (std::size_t depth = 1; depth <= kDeepest; ++depth) {
    const TomlNode base = copy_of(shrinker.best());
    const std::vector<Path> paths = removable_at(base, depth);
    minimize(paths.size(), [&](const std::vector<std::size_t>& kept) {
      return shrinker.offer(without(base, others(paths, kept)));
    });
  }
}

void shrink_lists(Shrinker& shrinker) {
  for (const std::string& name : names_of_lists(shrinker.best())) shrink_list(shrinker, name);
}

void shrink_integers(Shrinker& shrinker) {
  // Only values change, so the places stay where they are.
  for (const DocumentEntry& place : entries_of(shrinker.best())) {
    const bool is_integer = node_at(shrinker.best(), place.path).kind == TomlNode::Kind::kInteger;
    if (is_integer && shrinks_as(place, Shrinking::kCount)) shrink_integer(shrinker, place.path);
  }
}

}  // namespace lockstep::explore
