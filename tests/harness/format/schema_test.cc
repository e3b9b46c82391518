// The schema, walked: what each line of the table says is what the reader does.
#include "lockstep/harness/format/schema.h"

#include <algorithm>
#include <cstdint>
#include <gmock/gmock.h>
#include <map>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/table_reader.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A small document as texts of its top-level keys.
using Document = std::map<std::string, std::string>;

Document job() {
  return {{"format", "1"},
          {"world", "{ ranks = 2 }"},
          {"model", "{ kind = \"scalar\" }"},
          {"data", "{ kind = \"inline\", rows = [ { x = [1], y = [1] }, { x = [2], y = [2] } ] }"},
          {"loop", "{ steps = 1 }"}};
}

Document program() {
  return {{"format", "1"},
          {"world", "{ ranks = 2 }"},
          {"tensor", "{ x = { shape = [2] }, y = { shape = [4] } }"},
          {"program", "[ { body = [ { op = \"barrier\" } ] } ]"}};
}

std::string error_of(const Document& document) {
  std::string text;
  for (const auto& [key, value] : document) text += key + " = " + value + "\n";
  const Result<Scenario> scenario = read_scenario_text(text, "job.toml");
  return scenario.ok() ? "no error" : scenario.error().text();
}

/// What a table needs, besides a key that is tried: by section, or by section and kind.
std::string companions_of(const std::string& section, std::string_view kind, std::string_view key) {
  using Companion = std::pair<std::string, std::string>;
  static const std::map<std::string, Companion> companions = {
      {"model/cnn", {"image", "[1, 8, 8]"}},
      {"data/", {"rows", "[ { x = [1], y = [1] }, { x = [2], y = [2] } ]"}},
      {"data/inline", {"rows", "[ { x = [1], y = [1] }, { x = [2], y = [2] } ]"}},
      {"data/csv", {"path", "\"none.csv\""}},
      {"data/npy", {"features", "\"none.npy\""}},
      {"data/text", {"text", "\"abcdefghijklmnopqrstuvwxyz\""}},
      {"scheduler/table", {"factors", "[1.0]"}},
      {"clip/", {"norm", "1.0"}},
      {"override/", {"set", "{ \"optimizer.lr\" = 0.5 }"}},
      {"bug/", {"kind", "\"skip-step\""}},
      {"program/", {"body", "[ ]"}},
      {"expect.fires/", {"law", "\"progress\""}},
      {"expect.values/", {"at", "{ step = 0 }"}}};
  std::string text;
  if (section == "fault" && key != "ranks") text += "ranks = [0], ";
  if (section == "fault" && kind.empty() && key != "kind") text += "kind = \"hang\", ";
  if (key.starts_with("parameters_as_bucket_view")) text += "zero = 1, ";
  if (key.starts_with("offset")) text += "view = \"y\", ";
  const auto found = companions.find(section + "/" + std::string(kind));
  if (section == "data" && key == "kind") return text;
  if (found == companions.end() || found->second.first == key) return text;
  return text + found->second.first + " = " + found->second.second + ", ";
}

/// "kind = \"csv\", ": the first kind that has the field.
std::string kind_for(const std::string& section, const SchemaField& field) {
  if (field.kinds.empty()) return "";
  for (const SchemaSection& each : schema()) {
    if (each.name != section || each.kind_key.empty()) continue;
    return each.kind_key + " = \"" + std::string(field.kinds.front()) + "\", ";
  }
  // A part of a schedule has its own key for it.
  return "kind = \"" + std::string(field.kinds.front()) + "\", ";
}

bool is_kind_of(const std::string& section, const SchemaField& field) {
  const auto all = schema();
  return std::any_of(all.begin(), all.end(), [&](const SchemaSection& each) {
    return each.name == section && each.kind_key == field.key;
  });
}

std::string_view kind_of(const SchemaField& field) {
  return field.kinds.empty() ? std::string_view() : field.kinds.front();
}

std::string in_shape(const SchemaSection& section, const std::string& table) {
  if (section.shape == SectionShape::kList) return "[ " + table + " ]";
  return section.shape == SectionShape::kNamed ? "{ x = " + table + ", y = { shape = [4] } }"
                                               : table;
}

/// A document with `key = value` in a table of the section.
Document document_with(const SchemaSection& section,
                       const SchemaField& field,
                       const std::string& value,
                       const std::string& key) {
  const bool of_programs = section.name.starts_with("program") || section.name == "tensor";
  Document document = of_programs ? program() : job();
  if (section.name.empty()) {
    document[key] = value;
    return document;
  }
  const bool is_kind = is_kind_of(section.name, field);
  std::string inner = "{ " + (is_kind ? std::string() : kind_for(section.name, field)) +
                      companions_of(section.name, kind_of(field), key) + key + " = " + value + " }";
  inner = in_shape(section, inner);
  std::string path = section.name;
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.')) {
    const std::string below = path.substr(dot + 1);
    const SchemaField* holder = find_field(path);
    path.resize(dot);
    const SchemaSection* around = find_section(path);
    const std::string kind = holder == nullptr ? std::string() : kind_for(path, *holder);
    const std::string companions =
        companions_of(path, holder == nullptr ? "" : kind_of(*holder), below);
    inner = "{ " + kind + companions + below + " = " + inner + " }";
    if (around != nullptr) inner = in_shape(*around, inner);
  }
  document[path] = inner;
  return document;
}

std::string error_with(const SchemaSection& section,
                       const SchemaField& field,
                       const std::string& value) {
  return error_of(document_with(section, field, value, field.key));
}

/// How messages call the key.
std::string name_in_messages(const SchemaSection& section, const SchemaField& field) {
  if (section.name.empty()) return field.key;
  if (section.name == "tensor") return "tensor.x." + field.key;
  return (section.name == "program.body" ? "op" : section.name) + "." + field.key;
}

/// Visits every key that a scenario has; tables of reproductions are read by another command.
template <typename Visit>
void each_field(Visit visit) {
  for (const SchemaSection& section : schema()) {
    if (section.name == "replay") continue;
    for (const SchemaField* field : section.fields) {
      SCOPED_TRACE(section.name + "." + field->key);
      visit(section, *field);
    }
  }
}

constexpr const char* kOutOfRange = "it must be ";

TEST(SchemaTest, AnIntegerMayBeAtItsBoundsAndNotBeyond) {
  int n = 0;
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    if (field.type != FieldType::kInteger) return;
    ++n;
    const std::string name = name_in_messages(section, field);
    EXPECT_THAT(error_with(section, field, std::to_string(field.least)),
                Not(HasSubstr(kOutOfRange)));
    if (field.most < TableReader::kMost) {
      const std::string above = std::to_string(field.most + 1);
      EXPECT_THAT(error_with(section, field, above),
                  HasSubstr("'" + name + "' is " + above + "; it must be between " +
                            std::to_string(field.least) + " and " + std::to_string(field.most)));
    }
    if (field.least == INT64_MIN) return;
    const std::string below = std::to_string(field.least - 1);
    EXPECT_THAT(error_with(section, field, below),
                HasSubstr("'" + name + "' is " + below + "; it must"));
  });
  EXPECT_GT(n, 70);
}

TEST(SchemaTest, ALargestIntegerIsPossible) {
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    // Worlds of a million ranks and ranks above the world's are refused for other reasons.
    const bool is_rank = field.rank_link != RankLink::kNone || section.name == "expect.samples";
    if (field.type != FieldType::kInteger || is_rank || section.name == "world") return;
    EXPECT_THAT(error_with(section, field, std::to_string(field.most)),
                Not(HasSubstr("'" + field.key + "' is")));
  });
}

/// "at least 0", "between 0 and 8".
std::string range_of(const SchemaField& field) {
  return field.to ? "between " + exact(*field.from) + " and " + exact(*field.to)
                  : "at least " + exact(*field.from);
}

TEST(SchemaTest, ANumberMayBeAtItsLeastAndNotBelow) {
  int n = 0;
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    if (!field.from) return;
    ++n;
    const std::string below = exact(*field.from - 0.5);
    const std::string must = "must be " + range_of(field);
    EXPECT_THAT(error_with(section, field, exact(*field.from)), Not(HasSubstr(must)));
    EXPECT_THAT(
        error_with(section, field, below),
        HasSubstr("'" + name_in_messages(section, field) + "' is " + below + "; it " + must));
  });
  EXPECT_GT(n, 30);
}

TEST(SchemaTest, ANumberMayBeAtItsMostAndNotAbove) {
  int n = 0;
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    if (!field.to) return;
    ++n;
    const std::string must = "must be " + range_of(field);
    EXPECT_THAT(error_with(section, field, exact(*field.to)), Not(HasSubstr(must)));
    EXPECT_THAT(error_with(section, field, exact(2.0 * *field.to)), HasSubstr(must));
    EXPECT_THAT(error_with(section, field, "nan"), HasSubstr(must));
  });
  EXPECT_EQ(n, 4);
}

TEST(SchemaTest, EachWordIsKnownAndNoOther) {
  int n = 0;
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    if (field.words.empty()) return;
    const auto written = [&](std::string_view word) {
      const std::string text = "\"" + std::string(word) + "\"";
      return field.type == FieldType::kWords ? "[" + text + "]" : text;
    };
    for (const std::string_view word : field.words) {
      ++n;
      const std::string error = error_with(section, field, written(word));
      EXPECT_THAT(error, Not(HasSubstr("does not know"))) << word;
      EXPECT_THAT(error, Not(HasSubstr("unknown"))) << word;
    }
    for (const std::string_view word : field.later) {
      EXPECT_THAT(error_with(section, field, written(word)), HasSubstr("is not supported yet"));
    }
    EXPECT_THAT(error_with(section, field, written("zzz")), HasSubstr("'zzz'"));
  });
  EXPECT_GT(n, 150);
}

TEST(SchemaTest, AnotherTypeIsRefused) {
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    const bool is_kind = is_kind_of(section.name, field);
    if (field.type == FieldType::kAny || field.type == FieldType::kRanks || is_kind) return;
    const char* const wrong = field.type == FieldType::kTable ? "1" : "{ }";
    const std::string refusal = field.refused ? "is not supported yet" : "must be ";
    EXPECT_THAT(error_with(section, field, wrong),
                HasSubstr("'" + name_in_messages(section, field) + "' " + refusal));
  });
}

TEST(SchemaTest, AMisspeltKeyOfEachSectionGetsASuggestion) {
  std::set<std::string> sections;
  for (const SchemaSection& section : schema()) {
    if (section.name.empty() || section.name == "replay") continue;
    const SchemaField* longest = section.fields.front();
    for (const SchemaField* field : section.fields) {
      if (field->key.size() > longest->key.size()) longest = field;
    }
    const std::string misspelt = longest->key + "x";
    EXPECT_THAT(error_of(document_with(section, *longest, "1", misspelt)),
                HasSubstr("unknown key '" + misspelt + "' in '"))
        << section.name;
    EXPECT_THAT(error_of(document_with(section, *longest, "1", misspelt)),
                HasSubstr("did you mean '" + longest->key + "'?"))
        << section.name;
    sections.insert(section.name);
  }
  EXPECT_GT(sections.size(), 40U);
}

TEST(SchemaTest, KeysAreExplainedInSentences) {
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    EXPECT_TRUE(field.meaning.ends_with('.')) << field.meaning;
    for (const std::string_view kind : field.kinds) {
      const std::string key = section.name == "program.body" ? ".op" : ".kind";
      const SchemaField* const kinds = find_field(section.name + key);
      ASSERT_NE(kinds, nullptr);
      if (kinds->words.empty()) continue;
      EXPECT_THAT(kinds->words, ::testing::Contains(kind));
    }
  });
}

// The shrinker and the variations look a key up by its path, whatever the kind.
TEST(SchemaTest, KeysOfOneNameAgreeOnWhatMayBecomeOfThem) {
  each_field([&](const SchemaSection& section, const SchemaField& field) {
    std::string path = section.name + (section.shape == SectionShape::kNamed ? ".x." : ".");
    if (section.name.empty()) path.clear();
    const SchemaField* const first = find_field(path + field.key);
    ASSERT_NE(first, nullptr);
    if (first->type != field.type) return;
    EXPECT_EQ(first->shrinking, field.shrinking);
    EXPECT_EQ(first->stays, field.stays);
    EXPECT_EQ(first->rank_link, field.rank_link);
  });
}

TEST(SchemaTest, FindsAKeyThroughListsNamesAndOverrides) {
  const auto key_at = [](std::string_view path) {
    const SchemaField* const field = find_field(path);
    return field == nullptr ? "none" : field->key;
  };
  EXPECT_EQ(key_at("title"), "title");
  EXPECT_EQ(key_at("loader.batches_by_rank.0.1"), "batches_by_rank");
  EXPECT_EQ(key_at("override.0.set.loader.batch"), "batch");
  EXPECT_EQ(key_at("override.1.ranks"), "ranks");
  EXPECT_EQ(key_at("program.0.body.1.body.0.ns"), "ns");
  EXPECT_EQ(key_at("tensor.x.shape.0"), "shape");
  EXPECT_EQ(key_at("tensor.3.shape"), "shape");
  EXPECT_EQ(key_at("scheduler.parts.0.total_iters"), "total_iters");
  EXPECT_EQ(key_at("tensor.shape"), "none");
  EXPECT_EQ(key_at("world.groups.steps"), "none");
  EXPECT_EQ(key_at("loop.stepz"), "none");
  EXPECT_EQ(key_at(""), "none");
}

TEST(SchemaTest, OnlyAJobMayDifferByRank) {
  for (const char* path : {"model.init.value",
                           "data.size",
                           "loader.batch",
                           "loss.kind",
                           "optimizer.lr",
                           "scheduler.kind",
                           "scaler.init",
                           "clip.norm",
                           "loop.steps",
                           "ddp.hook.kind"}) {
    EXPECT_TRUE(may_differ_by_rank(path)) << path;
  }
  for (const char* path : {"world.ranks",
                           "sim.order",
                           "exact.grid",
                           "policy.allow",
                           "override",
                           "bug.0.kind",
                           "fault.0.kind",
                           "swarm.faults",
                           "expect.outcome",
                           "title",
                           "program",
                           "no_section.key",
                           ""}) {
    EXPECT_FALSE(may_differ_by_rank(path)) << path;
  }
}

// PyTorch's documentation of each class says these.
TEST(SchemaTest, DefaultsOfOptimizersArePyTorchs) {
  const auto fallback = [](std::string_view section, std::string_view key, std::string_view kind) {
    for (const SchemaSection& each : schema()) {
      if (each.name != section) continue;
      for (const SchemaField* field : each.fields) {
        if (field->key == key && field->belongs_to(kind)) return field->fallback;
      }
    }
    return std::string("no such key");
  };
  EXPECT_EQ(fallback("optimizer", "lr", "adam"), "0.001");
  EXPECT_EQ(fallback("optimizer", "lr", "rmsprop"), "0.01");
  EXPECT_EQ(fallback("optimizer", "weight_decay", "adam"), "0");
  EXPECT_EQ(fallback("optimizer", "weight_decay", "adamw"), "0.01");
  EXPECT_EQ(fallback("optimizer", "eps", "adagrad"), "1e-10");
  EXPECT_EQ(fallback("optimizer", "eps", "adamw"), "1e-08");
  EXPECT_EQ(fallback("optimizer", "eps", "sgd"), "no such key");
  EXPECT_EQ(fallback("scaler", "init", ""), "65536");
  EXPECT_EQ(fallback("scaler", "growth_interval", ""), "2000");
  EXPECT_EQ(fallback("ddp", "gradient_as_bucket_view", ""), "false");
  EXPECT_EQ(fallback("ddp.hook", "start_powerSGD_iter", "powersgd"), "1000");
  EXPECT_EQ(fallback("scheduler", "patience", "plateau"), "10");
}

}  // namespace
}  // namespace lockstep
