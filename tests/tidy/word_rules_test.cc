// The rules about words that judge, applied to the laws; and each shown a file that breaks it.
#include "tests/tidy/word_rules.h"

#include <gmock/gmock.h>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What the table of causes calls them: the anchors of its pages, and the ids that it spells out.
std::vector<std::string> ids_in(const std::string& table) {
  static const std::regex pattern(R"re((?:#|\n\s*")([a-z0-9]+(?:-[a-z0-9]+)*)",)re");
  std::vector<std::string> ids;
  for (auto match = std::sregex_iterator(table.begin(), table.end(), pattern);
       match != std::sregex_iterator();
       ++match) {
    ids.push_back((*match)[1]);
  }
  return ids;
}

std::vector<File> laws() {
  std::vector<File> files = files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cc"});
  std::erase_if(files, [](const File& file) { return !file.path.starts_with("src/laws/"); });
  return files;
}

TEST(WordRulesTest, NoLawReadsAMessage) {
  const std::vector<File> files = laws();
  ASSERT_GT(files.size(), 20U);
  for (const File& file : files) {
    for (const std::string& complaint : parsed_messages(file)) ADD_FAILURE() << complaint;
  }
}

TEST(WordRulesTest, NoLawSpellsOutACause) {
  std::ostringstream table;
  for (const File& file : laws()) {
    if (file.path.find("/cause_rows_") != std::string::npos) table << file.text;
  }
  const std::vector<std::string> ids = ids_in(table.str());
  ASSERT_GT(ids.size(), 50U);
  const std::vector<std::string_view> views(ids.begin(), ids.end());
  for (const File& file : laws()) {
    for (const std::string& complaint : spelled_out_causes(file, views)) {
      ADD_FAILURE() << complaint;
    }
  }
}

TEST(WordRulesTest, AMessageThatIsReadIsFound) {
  EXPECT_THAT(
      parsed_messages({"src/laws/a.cc", "\nreturn life.detail.starts_with(\"livelock\");"}),
      ElementsAre("src/laws/a.cc:2: a law reads words out of a text; let an enum of the event "
                  "carry it"));
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "at = text.find( \" failed: \");"}),
              ::testing::SizeIs(1));
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "if (life.detail == other) return;"}),
              ::testing::SizeIs(1));
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "if (text != end.detail) return;"}),
              ::testing::SizeIs(1));
}

TEST(WordRulesTest, WhatIsNotAMessageMayBeSearched) {
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "return open.find(channel, seq);"}), IsEmpty());
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "path.rfind('/');  // .find(\"x\")"}), IsEmpty());
  EXPECT_THAT(parsed_messages({"src/laws/a.cc", "finding.message = \"differs\";"}), IsEmpty());
  EXPECT_THAT(parsed_messages({"scenario/a.cc", "document.find(\"variant\")"}), IsEmpty());
}

TEST(WordRulesTest, ACauseThatIsSpelledOutIsFound) {
  const std::vector<std::string_view> ids = {"rank-crash"};
  EXPECT_THAT(spelled_out_causes({"src/laws/a.cc", "\n\nreturn \"rank-crash\";"}, ids),
              ElementsAre("src/laws/a.cc:3: \"rank-crash\" is the id of a cause, use its "
                          "enumerator"));
  EXPECT_THAT(spelled_out_causes({"src/laws/a.cc", "// \"rank-crash\" is named"}, ids), IsEmpty());
  EXPECT_THAT(spelled_out_causes({"src/laws/cause_rows_calls.cc", "\"rank-crash\""}, ids),
              IsEmpty());
}

}  // namespace
}  // namespace lockstep::tidy
