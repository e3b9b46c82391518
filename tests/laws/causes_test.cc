#include "lockstep/laws/causes.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/run_outcome.h"

#include "tests/support/text_of.h"

namespace lockstep {
namespace {

constexpr const char* kPage = LOCKSTEP_SOURCE_DIR "/docs/causes.md";
constexpr std::string_view kBegin = "<!-- table: begin -->\n";
constexpr std::string_view kEnd = "<!-- table: end -->\n";

/// As GitHub names the anchor of a heading.
std::string slug_of(std::string_view heading) {
  std::string slug;
  for (const char letter : heading) slug += letter == ' ' ? '-' : letter;
  return slug;
}

/// Whether the page says that it is about `anchor`: in a heading, or in an anchor.
bool has_anchor(const std::string& page, const std::string& anchor) {
  if (page.find("<a id=\"" + anchor + "\"></a>") != std::string::npos) return true;
  const std::vector<std::string_view> lines = split(page, '\n');
  return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) {
    return line.starts_with("## ") && slug_of(line.substr(3)) == anchor;
  });
}

std::string table() {
  std::string text =
      "| cause | what happened | what to change |\n"
      "|---|---|---|\n";
  for (const CauseInfo& info : all_causes()) {
    const std::string page(info.page.substr(info.page.find('/') + 1));
    text += "| [`" + std::string(info.id) + "`](" + page + ") | " + std::string(info.sentence) +
            " | " + std::string(info.remedy) + " |\n";
  }
  return text;
}

TEST(CausesTest, StandInTheOrderOfTheirIdsAndOfTheEnum) {
  ASSERT_FALSE(all_causes().empty());
  std::string_view before;
  int number = 0;
  for (const CauseInfo& info : all_causes()) {
    EXPECT_LT(before, info.id);
    EXPECT_EQ(static_cast<int>(info.cause), ++number) << info.id;
    before = info.id;
  }
}

TEST(CausesTest, AreFoundAgainByTheirIds) {
  for (const CauseInfo& info : all_causes()) {
    EXPECT_EQ(parse_cause(id_of(info.cause)), info.cause);
    EXPECT_EQ(&describe(info.cause), &info);
  }
}

TEST(CausesTest, NothingElseHasAnIdOrADescription) {
  EXPECT_EQ(id_of(Cause::kNone), "");
  EXPECT_EQ(parse_cause(""), std::nullopt);
  EXPECT_EQ(parse_cause("rank-crsh"), std::nullopt);
  EXPECT_THROW(describe(Cause::kNone), ContractViolation);
}

/// The sentences of a text, each of which begins with a capital.
std::vector<std::string_view> sentences_of(std::string_view text) {
  std::vector<std::string_view> sentences;
  std::size_t from = 0;
  for (std::size_t at = text.find(". "); at != std::string_view::npos;
       at = text.find(". ", at + 1)) {
    if (text[at + 2] < 'A' || text[at + 2] > 'Z') continue;
    sentences.push_back(text.substr(from, at + 1 - from));
    from = at + 2;
  }
  sentences.push_back(text.substr(from));
  return sentences;
}

TEST(CausesTest, AreEachExplainedInOneSentenceWithARemedyOfTwoAtMost) {
  constexpr std::size_t kMostWords = 30;
  std::set<std::string_view> sentences;
  for (const CauseInfo& info : all_causes()) {
    EXPECT_EQ(sentences_of(info.sentence).size(), 1U) << info.sentence;
    EXPECT_LE(sentences_of(info.remedy).size(), 2U) << info.remedy;
    for (const std::string_view text : {info.sentence, info.remedy}) {
      ASSERT_GT(text.size(), 20U) << info.id;
      EXPECT_TRUE(text.front() >= 'A' && text.front() <= 'Z') << text;
      EXPECT_EQ(text.back(), '.') << text;
      for (const std::string_view one : sentences_of(text)) {
        EXPECT_LE(split(one, ' ').size(), kMostWords) << one;
      }
      EXPECT_EQ(text.find_first_of("|\n"), std::string_view::npos) << text;
      EXPECT_EQ(text.find("  "), std::string_view::npos) << text;
      EXPECT_TRUE(sentences.insert(text).second) << text;
    }
  }
}

TEST(CausesTest, AreEachShownInLinesThatBreakAndLinesThatRepair) {
  std::set<std::string_view> broken;
  for (const CauseInfo& info : all_causes()) {
    const CauseExample& example = example_of(info.cause);
    EXPECT_EQ(example.cause, info.cause);
    EXPECT_TRUE(broken.insert(example.breaks).second) << info.id << ": shown for another cause";
    EXPECT_NE(example.breaks, example.repairs) << info.id;
    for (const std::string_view lines : {example.breaks, example.repairs}) {
      ASSERT_FALSE(lines.empty()) << info.id;
      EXPECT_NE(lines.back(), '\n') << info.id;
      EXPECT_EQ(lines.find('\t'), std::string_view::npos) << info.id;
      for (const std::string_view line : split(lines, '\n')) EXPECT_LT(line.size(), 97U) << line;
    }
  }
  EXPECT_THROW(example_of(Cause::kNone), ContractViolation);
}

TEST(CausesTest, NameAPlaceThatTheDocumentationHas) {
  for (const CauseInfo& info : all_causes()) {
    const std::size_t hash = info.page.find('#');
    ASSERT_NE(hash, std::string_view::npos) << info.page;
    const std::string page =
        testing::text_of(LOCKSTEP_SOURCE_DIR "/" + std::string(info.page.substr(0, hash)));
    EXPECT_TRUE(has_anchor(page, std::string(info.page.substr(hash + 1)))) << info.page;
  }
  const std::string zoo = testing::text_of(LOCKSTEP_SOURCE_DIR "/docs/zoo.md");
  EXPECT_FALSE(has_anchor(zoo, "no-such-bug"));
}

TEST(CausesTest, AreListedInTheDocumentationAsTheyAreHere) {
  const std::string page = testing::text_of(kPage);
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  const std::size_t from = begin + kBegin.size();
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kPage, std::ios::binary) << page.substr(0, from) + table() + page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(from, end - from), table())
      << "LOCKSTEP_UPDATE_GOLDEN=1 rewrites docs/causes.md";
}

TEST(RunOutcomeTest, EveryOutcomeIsFoundAgainByItsName) {
  for (const RunOutcome outcome :
       {RunOutcome::kOk, RunOutcome::kFindings, RunOutcome::kHang, RunOutcome::kError}) {
    EXPECT_EQ(parse_enum<RunOutcome>(name_of(outcome)), outcome);
  }
  EXPECT_EQ(name_of(RunOutcome::kHang), "hang");
  EXPECT_EQ(parse_enum<RunOutcome>("hangs"), std::nullopt);
  EXPECT_EQ(parse_enum<RunOutcome>(""), std::nullopt);
}

TEST(RunOutcomeTest, RanksFinishedUnlessTheyHungOrFailed) {
  EXPECT_TRUE(is_complete(RunOutcome::kOk));
  EXPECT_TRUE(is_complete(RunOutcome::kFindings));
  EXPECT_FALSE(is_complete(RunOutcome::kHang));
  EXPECT_FALSE(is_complete(RunOutcome::kError));
}

}  // namespace
}  // namespace lockstep
