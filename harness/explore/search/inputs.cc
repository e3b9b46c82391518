#include "lockstep/harness/explore/search/inputs.h"

#include <utility>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/schema.h"

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

/// Paths of the keys of the schema for which `holds`, in its order.
template <typename Holds>
std::vector<std::string> keys_where(Holds holds) {
  std::vector<std::string> keys;
  for (const SchemaSection& section : schema()) {
    for (const SchemaField* field : section.fields) {
      if (holds(*field)) keys.push_back(section.name + "." + field->key);
    }
  }
  return keys;
}

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
  std::vector<Setting> settings;
  if (seed == 0 || is_program(document)) return settings;
  for (const std::string& key : keys_where([](auto& field) { return field.seeds_job; })) {
    const TomlNode* present = find_at(document, key);
    const std::int64_t value = present == nullptr ? 0 : present->integer;
    const Setting setting = {key, std::to_string(value + static_cast<std::int64_t>(seed))};
    if (scenario_of(with_settings(document, {setting}), path).ok()) settings.push_back(setting);
  }
  return settings;
}

std::vector<std::vector<Setting>> small_changes(const TomlNode& document, const std::string& path) {
  Changes changes(document, path);
  for (const std::string& key :
       keys_where([](auto& field) { return field.nudges && !field.nudges->empty(); })) {
    changes.add(key, *find_field(key)->nudges);
  }
  // Programs name their ranks and sizes; exact jobs promise not to round with theirs.
  if (is_program(document) || document.find("exact") != nullptr) return changes.take();
  for (const std::string& key :
       keys_where([](auto& field) { return field.nudges && field.nudges->empty(); })) {
    changes.add_counts(key);
  }
  return changes.take();
}

}  // namespace lockstep::explore
