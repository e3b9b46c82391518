// The pages of the format, and the fuzzer's dictionary, are what the schema says.
#include "lockstep/harness/format/schema_page.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>

#include "lockstep/harness/format/schema.h"

#include "tests/support/text_of.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const std::string kPages = std::string(LOCKSTEP_SOURCE_DIR) + "/docs/scenario_format";
const std::string kDictionary = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/fuzz/scenario.dict";

/// Whether the file is `wanted`, or becomes it.
void expect_file(const std::string& path, const std::string& wanted) {
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(path, std::ios::binary) << wanted;
    return;
  }
  EXPECT_TRUE(testing::text_of(path) == wanted)
      << path << " differs from the schema: LOCKSTEP_UPDATE_GOLDEN=1 rewrites it";
}

std::vector<std::string> pages() {
  std::vector<std::string> paths = {kPages + ".md"};
  for (const auto& entry : std::filesystem::directory_iterator(kPages)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(SchemaPageTest, ThePagesShowTheSchema) {
  for (const std::string& path : pages()) {
    const Result<std::string> made = with_tables(testing::text_of(path));
    ASSERT_TRUE(made.ok()) << path << ": " << made.error().text();
    expect_file(path, made.value());
  }
}

TEST(SchemaPageTest, EachSectionIsOnOnePage) {
  std::string all;
  for (const std::string& path : pages()) all += testing::text_of(path);
  for (const SchemaSection& section : schema()) {
    const std::string name = section.name.empty() ? "the top level" : section.name;
    const std::string marker = "<!-- keys of " + name + " -->";
    const std::size_t first = all.find(marker);
    ASSERT_NE(first, std::string::npos) << "no page has " << marker;
    EXPECT_EQ(all.find(marker, first + 1), std::string::npos) << marker << " is there twice";
  }
}

TEST(SchemaPageTest, APageWithAnotherDefaultIsNoticed) {
  const std::string page =
      "Before.\n<!-- keys of loss -->\n" + key_table("loss") + "<!-- end of keys -->\nAfter.\n";
  EXPECT_EQ(with_tables(page).value(), page);
  std::string other = page;
  const std::size_t at = other.find("local-samples |");
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 13, "global-tokens");
  EXPECT_NE(other, page);
  EXPECT_EQ(with_tables(other).value(), page);
}

TEST(SchemaPageTest, RefusesAPageItCannotFill) {
  EXPECT_THAT(with_tables("<!-- keys of los -->\n<!-- end of keys -->\n").error().text(),
              HasSubstr("no section 'los'"));
  EXPECT_THAT(with_tables("<!-- keys of loss -->\n").error().text(), HasSubstr("has no end"));
}

TEST(SchemaPageTest, WhatIsRefusedIsListed) {
  const Result<std::string> page =
      with_tables("<!-- keys of what is not supported yet -->\n<!-- end of keys -->\n");
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page.value(), HasSubstr("| `loss.kind` | `smooth-l1`, `hinge` |\n"));
  EXPECT_THAT(page.value(), HasSubstr("| `ddp.mixed_precision` | the key |\n"));
  EXPECT_THAT(page.value(), ::testing::Not(HasSubstr("`loop.steps`")));
}

TEST(SchemaPageTest, ARowSaysKindsRangeDefaultAndMeaning) {
  EXPECT_THAT(key_table("world"),
              HasSubstr("| `ranks` | integer, 1 to 1000000 | 1 | How many there are. |\n"));
  EXPECT_THAT(key_table("optimizer"),
              HasSubstr("| `lr` | `adam`, `adamw` | number from 0 | 0.001 | Learning rate. |\n"));
  EXPECT_THAT(key_table("scheduler"),
              HasSubstr("| `anneal` | `onecycle` | `cos`, `linear` | cos |"));
  EXPECT_EQ(key_table("no section"), "");
}

TEST(SchemaPageTest, TheFuzzersKnowEveryKeyAndWord) {
  expect_file(kDictionary, fuzz_dictionary());
  for (const char* token :
       {"\"accumulate\"\n", "\"rank*worker\"\n", "\"[loop.eval]\"\n", "\"gelu\"\n"}) {
    EXPECT_THAT(fuzz_dictionary(), HasSubstr(token));
  }
}

}  // namespace
}  // namespace lockstep
