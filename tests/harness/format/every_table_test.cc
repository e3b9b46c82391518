// Every table of the format, as the scenarios of the tree show them, with one key too many.
#include <filesystem>
#include <gmock/gmock.h>
#include <set>
#include <string>
#include <vector>

#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"

namespace lockstep {
namespace {

/// The way from a document's top to one of its tables: keys, and "0", "1", ... in arrays.
using Way = std::vector<std::string>;

constexpr const char* kMisspelt = "misspelt_key";

/// Keys below which the names are the file's own.
bool has_free_names(const Way& way) {
  static const std::set<std::string> free_names = {"variant", "set", "groups", "tensor"};
  return way.size() == 1 ? free_names.contains(way[0])
                         : !way.empty() && (way.back() == "set" || way.back() == "groups");
}

/// "expect.samples.*": tables of one kind at one place are read by one function.
std::string pattern_of(const Way& way, const TomlNode& table) {
  std::string pattern;
  for (const std::string& key : way) {
    const bool is_index = key.find_first_not_of("0123456789") == std::string::npos;
    pattern += (pattern.empty() ? "" : ".") + (is_index ? std::string("*") : key);
  }
  for (const char* const key : {"kind", "op"}) {
    const TomlNode* const kind = table.find(key);
    if (kind != nullptr) pattern += " " + kind->text;
  }
  return pattern;
}

template <typename Visit>
void each_table(TomlNode& node, Way& way, Visit visit) {
  const auto go = [&](const std::string& key, TomlNode& child) {
    way.push_back(key);
    each_table(child, way, visit);
    way.pop_back();
  };
  if (node.is_table()) {
    if (!has_free_names(way)) visit(node, way);
    if (way.size() == 1 && way[0] == "variant") return;  // Merged into the rest: read there.
    for (TomlField& field : node.fields) go(field.key, field.value);
  } else if (node.is_array()) {
    for (std::size_t i = 0; i < node.items.size(); ++i) go(std::to_string(i), node.items[i]);
  }
}

TEST(EveryTableTest, RefusesAKeyThatItDoesNotHave) {
  std::set<std::string> seen;
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    const std::string path = entry.path().string();
    Result<TomlNode> root = read_toml(path);
    ASSERT_TRUE(root.ok()) << root.error().text();
    Way way;
    each_table(root.value(), way, [&](TomlNode& table, const Way& at) {
      const std::string pattern = pattern_of(at, table);
      if (!seen.insert(pattern).second) return;
      table.fields.push_back({kMisspelt, table.where, setting_value("", "1")});
      const Result<Scenario> scenario = read_scenario_text(render_toml(root.value()), path);
      table.fields.pop_back();
      EXPECT_FALSE(scenario.ok()) << pattern << " accepts any key (" << path << ")";
      if (scenario.ok()) return;
      EXPECT_THAT(scenario.error().text(), ::testing::HasSubstr(kMisspelt)) << pattern;
    });
  }
  // Both are below two levels of other tables.
  EXPECT_TRUE(seen.contains("expect.samples.*"));
  EXPECT_TRUE(seen.contains("loader.augment"));
  EXPECT_GT(seen.size(), 60U);
}

}  // namespace
}  // namespace lockstep
