#include "lockstep/harness/explore/search/inputs.h"

#include <array>
#include <utility>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::explore {
namespace {

/// Collects the changes that a document can have.
class Changes {
 public:
  Changes(const TomlNode& document, const std::string& path) : document_(&document), path_(&path) {}

  /// `key` with other values. Integers as they are written.
  void add(const std::string& key, const std::vector<std::string>& values) {
    const TomlNode* present = find_at(*document_, key);
    for (const std::string& value : values) {
      const bool is_same = present != nullptr && written(*present) == value;
      const std::vector<Setting> change = {{key, value}};
      if (is_same || !scenario_of(with_settings(*document_, change), *path_).ok()) continue;
      changes_.push_back(change);
    }
  }

  /// A little less, a little more and twice as much of `key`, where the document names it.
  void add_counts(const std::string& key) {
    const TomlNode* present = find_at(*document_, key);
    if (present == nullptr || present->kind != TomlNode::Kind::kInteger) return;
    const std::int64_t n = present->integer;
    std::vector<std::string> values;
    for (const std::int64_t value : {n - 1, n + 1, 2 * n}) {
      if (value >= 1) values.push_back(std::to_string(value));
    }
    add(key, values);
  }

  std::vector<std::vector<Setting>> take() { return std::move(changes_); }

 private:
  static std::string written(const TomlNode& node) {
    if (node.kind == TomlNode::Kind::kInteger) return std::to_string(node.integer);
    if (node.kind == TomlNode::Kind::kBool) return node.flag ? "true" : "false";
    return node.text;
  }

  const TomlNode* document_;
  const std::string* path_;
  std::vector<std::vector<Setting>> changes_;
};

bool is_program(const TomlNode& document) { return document.find("program") != nullptr; }

}  // namespace

TomlNode with_settings(const TomlNode& document, const std::vector<Setting>& settings) {
  TomlNode changed = copy_of(document);
  for (const Setting& setting : settings) {
    put(changed, setting.key, setting_value(setting.key, setting.value));
  }
  return changed;
}

std::vector<Setting> seed_settings(const TomlNode& document,
                                   const std::string& path,
                                   std::uint64_t seed) {
  constexpr std::array<const char*, 5> kSeeds = {
      "world.seed", "model.init.seed", "data.seed", "data.split_seed", "loader.seed"};
  std::vector<Setting> settings;
  if (seed == 0 || is_program(document)) return settings;
  for (const char* key : kSeeds) {
    const TomlNode* present = find_at(document, key);
    const std::int64_t value = present == nullptr ? 0 : present->integer;
    const Setting setting = {key, std::to_string(value + static_cast<std::int64_t>(seed))};
    if (scenario_of(with_settings(document, {setting}), path).ok()) settings.push_back(setting);
  }
  return settings;
}

std::vector<std::vector<Setting>> small_changes(const TomlNode& document, const std::string& path) {
  Changes changes(document, path);
  changes.add("sim.order", {"rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"});
  changes.add("sim.fidelity", {"rendezvous", "message"});
  changes.add("ddp.bucket_cap_mb", {"0.00001", "0.001"});
  changes.add("ddp.gradient_as_bucket_view", {"true", "false"});
  // Programs name their ranks and sizes; exact jobs promise not to round with theirs.
  if (is_program(document) || document.find("exact") != nullptr) return changes.take();
  for (const char* key : {"world.ranks",
                          "loader.batch",
                          "data.size",
                          "loop.steps",
                          "loop.epochs",
                          "loop.accumulate"}) {
    changes.add_counts(key);
  }
  return changes.take();
}

}  // namespace lockstep::explore
