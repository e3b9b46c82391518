// Trees that remember places, and the three ways to change them.
#include "lockstep/harness/format/toml_document.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"

namespace lockstep {
namespace {

TomlNode parsed(const std::string& text) {
  Result<TomlNode> node = parse_toml(text, "a.toml");
  EXPECT_TRUE(node.ok()) << (node.ok() ? "" : node.error().text());
  return node.ok() ? std::move(node).value() : TomlNode();
}

TEST(TomlDocumentTest, EveryValueAndKeyKnowsItsPlace) {
  const TomlNode root = parsed("a = 1\n\n[b]\nc = [ 2.5, \"x\" ]\n");

  EXPECT_EQ(root.find("a")->where, "a.toml:1:5");
  const TomlNode& b = *root.find("b");
  EXPECT_EQ(b.fields[0].where, "a.toml:4:1");
  EXPECT_EQ(b.find("c")->items[1].where, "a.toml:4:12");
}

TEST(TomlDocumentTest, TablesKeepTheOrderOfTheFile) {
  const TomlNode root = parsed("zebra = 1\napple = 2\n");

  EXPECT_EQ(root.fields[0].key, "zebra");
  EXPECT_EQ(root.fields[1].key, "apple");
}

TEST(TomlDocumentTest, MalformedTextIsReportedAtItsPlace) {
  const Result<TomlNode> node = parse_toml("a = 1\nb = = 2\n", "a.toml");

  ASSERT_FALSE(node.ok());
  EXPECT_EQ(node.error().where.substr(0, 9), "a.toml:2:");
  EXPECT_EQ(node.error().message.substr(0, 15), "malformed TOML:");
}

TEST(TomlDocumentTest, MergingJoinsTablesAndReplacesEverythingElse) {
  TomlNode base = parsed("t = { a = 1, b = { c = 2 } }\nlist = [1, 2, 3]\n");

  merge_into(base, parsed("t = { b = { d = 4 }, e = 5 }\nlist = [9]\n"));

  EXPECT_EQ(base.find("t")->find("a")->integer, 1);
  EXPECT_EQ(base.find("t")->find("b")->find("c")->integer, 2);
  EXPECT_EQ(base.find("t")->find("b")->find("d")->integer, 4);
  EXPECT_EQ(base.find("t")->find("e")->integer, 5);
  ASSERT_EQ(base.find("list")->items.size(), 1U);
  EXPECT_EQ(base.find("list")->items[0].integer, 9);
}

TEST(TomlDocumentTest, MergingATableOverAScalarReplacesIt) {
  TomlNode base = parsed("a = 1\n");

  merge_into(base, parsed("a = { b = 2 }\n"));

  EXPECT_EQ(base.find("a")->find("b")->integer, 2);
}

TEST(TomlDocumentTest, RemovingNeedsSomethingToRemove) {
  TomlNode base = parsed("expect = { outcome = \"ok\", values = [] }\n");

  EXPECT_TRUE(remove_at(base, "expect.values", "a.toml:9:9").ok());
  EXPECT_EQ(base.find("expect")->find("values"), nullptr);
  const Outcome again = remove_at(base, "expect.outcom", "a.toml:9:9");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().text(),
            "a.toml:9:9: nothing to unset at 'expect.outcom'; did you mean 'outcome'?");
}

TEST(TomlDocumentTest, SettingMakesTablesAndStepsIntoArrays) {
  TomlNode base = parsed("bug = [ { value = 1 } ]\n");

  EXPECT_TRUE(set_at(base, "model.init.value", setting_value("k", "2.5")).ok());
  EXPECT_TRUE(set_at(base, "bug.0.value", setting_value("k", "7")).ok());

  EXPECT_EQ(base.find("model")->find("init")->find("value")->number, 2.5);
  EXPECT_EQ(base.find("bug")->items[0].find("value")->integer, 7);
  EXPECT_FALSE(set_at(base, "bug.3.value", setting_value("k", "7")).ok());
}

TEST(TomlDocumentTest, ASettingIsTomlOrABareWord) {
  EXPECT_EQ(setting_value("k", "3").kind, TomlNode::Kind::kInteger);
  EXPECT_EQ(setting_value("k", "[1, 2]").items.size(), 2U);
  EXPECT_EQ(setting_value("k", "relu").text, "relu");
  EXPECT_EQ(setting_value("k", "\"relu\"").text, "relu");
  EXPECT_EQ(setting_value("k", "1\nother = 2").text, "1\nother = 2");
  EXPECT_EQ(setting_value("model.kind", "relu").where, "--set model.kind");
}

TEST(TomlWriterTest, WritesWhatTheParserReadsBack) {
  const std::string text =
      "whole = 3\nnumber = 3.0\nsmall = 1e-30\nnothing = nan\nmuch = -inf\nyes = true\n"
      "text = \"a \\\"quote\\\", a \\\\, a \\n and \\u0001\"\n\"a.b c\" = [1, [2.5], []]\n"
      "empty = {}\nt = { \"x.y\" = { z = [ { a = 1 }, { a = 2 } ] } }\n";

  const TomlNode root = parsed(text);
  const TomlNode again = parsed(render_toml(root));

  EXPECT_EQ(render_toml(again), render_toml(root));
  EXPECT_EQ(again.find("whole")->kind, TomlNode::Kind::kInteger);
  EXPECT_EQ(again.find("number")->kind, TomlNode::Kind::kFloat);
  EXPECT_EQ(again.find("small")->number, 1e-30);
  EXPECT_EQ(again.find("text")->text, root.find("text")->text);
  EXPECT_EQ(again.find("a.b c")->items[1].items[0].number, 2.5);
  EXPECT_EQ(again.find("t")->find("x.y")->find("z")->items[1].find("a")->integer, 2);
}

// Source: TOML 1.0, "Keys": bare ones are made of ASCII letters, digits, _ and -.
TEST(TomlWriterTest, KeysAreQuotedOnlyWhereTheyCannotBeBare) {
  const auto written = [](const std::string& key) {
    return render_toml(parsed("\"" + key + "\" = 1\n"));
  };

  for (const char* const key : {"a", "z", "A", "Z", "0", "9", "_", "-", "aB9_-"}) {
    EXPECT_EQ(written(key), std::string(key) + " = 1\n");
  }
  for (const char* const key : {"", "a b", "a.b", "\u00e9", "a/", "a:", "a@", "a[", "a`", "a{"}) {
    EXPECT_EQ(written(key).front(), '"') << key;
  }
}

TEST(TomlWriterTest, EveryScenarioOfTheTreeRunsFromWhatIsWritten) {
  int n_files = 0;
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    const std::string path = entry.path().string();
    const Result<TomlNode> root = load_document(path, "", {});
    ASSERT_TRUE(root.ok()) << root.error().text();
    const std::string text = render_toml(root.value());
    const Result<TomlNode> again = parse_toml(text, path);
    ASSERT_TRUE(again.ok()) << again.error().text() << "\n" << text;
    EXPECT_EQ(render_toml(again.value()), text) << path;
    const Result<Scenario> scenario = read_scenario_text(text, path);
    EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
    ++n_files;
  }
  EXPECT_GT(n_files, 50);
}

}  // namespace
}  // namespace lockstep
