// The list of phrases, each shown a text that has it and a text that only looks like it; then the
// whole tree.
#include "tests/tidy/phrase_rules.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <regex>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Complaints complaints_about(const std::string& text) {
  return foreign_phrases({"src/a/b.cc", text});
}

/// What is complained of, and what is not.
struct Twins {
  std::string foreign;
  std::string native;

  friend std::ostream& operator<<(std::ostream& out, const Twins& twins) {
    return out << twins.foreign;
  }
};

const std::vector<Twins> kTwins = {
    // Counts.
    {"Runs `fn` once a rank.", "Once a rank has ended, it stays ended."},
    {"Counted twice a step and group.", "Sent twice; a step takes two messages."},
    {"One, or one a rank for scatter", "Stops one: a rank that died."},
    {"one line an event.", "ends the line. A rank that died"},
    {"16 floats a chunk", "floats, a chunk of them"},
    {"std::vector<SimWork*> one_a_meeting();", "test_once_a_peer_died();"},
    {"constexpr int kStacksAChunk = 8;", "TEST(X, FindsARankThatDied)"},
    {"At most so many runs.", "It made so many that it stopped."},
    {"The how-manieth run, from 1.", "How many runs, from 1."},
    {"So that seeds come in turns", "Both wait, in turn, for the other"},
    // Idioms.
    {"this is no recording of a run", "there is no recording of a run"},
    {"'0x' is no bit", "it is no longer a bit"},
    {"counts no steps, of which ranks take different numbers", "none of which ranks see"},
    {"waits for ever in a call", "waits forever in a call"},
    {"It ends the hang by and by.", "one by one, and by rank"},
    {"A rank that runs in circles", "drawn in a circle"},
    {"the group is broken since: x", "broken, since x"},
    {"a rank did not come to the end of the run", "at the end of the run"},
    {"Seconds between looks", "Seconds between health checks"},
    {"how much of it is the order of additions", "depends on the order of additions"},
    {"rank 1 had ended", "after it had ended"},
    {"the parameters behind the step", "rank 1 is a step behind, and lags behind"},
    {"TEST(X, LooksBehindIt)", "TEST(X, LooksBeforeIt)"},
    // People.
    {"when nobody waits for it", "when no rank waits for it"},
    {"Everybody has come.", "an antibody, every body"},
    {"TEST(X, NobodyWaits)", "TEST(X, NoBodyThrows)"},
    {"bool anybody_active();", "bool any_body_throws();"},
    {"Whoever gives up says so.", "who ever gives up"},
    {"as the rank was told", "a stolder word"},
    {"TEST(X, ARankIsTold)", "TEST(X, AToldstep)"},
    {"It tells the others.", "It can tell late from missing."},
    {"what a law heard", "a herd"},
    {"That is another law's business.", "the business of laws"},
    {"TEST(X, IsNotItsBusiness)", "TEST(X, Business)"},
    // OldNames.
    {"What befalls a contribution", "What fails"},
    {"struct Mishap {};", "a mis-shaped tensor"},
    {"bool doomed_ = false;", "bool domed_ = false;"},
    {"bool heed();", "bool need();"},
    {"Vigil vigil_for_it;", "Vigilant"},
    {"peers::Patience<int> pauses;", "Patience is a virtue; patience = 3"},
    {"the noticeboard's file", "a notice board"},
    {"call_roll(x)", "roll_call(x)"},
    {"sign_in(x)", "sign(in)"},
    {"take_down(x)", "taken down"},
    {"class Farewell;", "fare well"},
    {"speaker_of(event)", "loudspeaker"},
    {"Likeness of events", "like events"},
    {"the imprint of a tensor", "in print"},
    {"class Wires;", "two wires"},
    {"class GroupHub;", "github.com"},
};

class PhraseRulesTest : public ::testing::TestWithParam<Twins> {};

TEST_P(PhraseRulesTest, ComplainsOfThePhraseAndNotOfItsTwin) {
  const auto& [foreign, native] = GetParam();

  EXPECT_THAT(complaints_about(foreign), ::testing::SizeIs(1)) << foreign;
  EXPECT_THAT(complaints_about(native), IsEmpty()) << native;
}

INSTANTIATE_TEST_SUITE_P(All, PhraseRulesTest, ::testing::ValuesIn(kTwins));

TEST(PhraseListTest, EveryRuleIsShownAPhrase) {
  for (const PhraseRule& rule : phrase_rules()) {
    auto flags = std::regex::ECMAScript;
    if (!rule.cased) flags |= std::regex::icase;
    const std::regex pattern(rule.pattern, flags);
    EXPECT_TRUE(std::any_of(kTwins.begin(), kTwins.end(), [&](const Twins& twins) {
      return std::regex_search(twins.foreign, pattern);
    })) << rule.pattern;
  }
}

TEST(PhraseListTest, NamesTheLineThePhraseAndAReplacement) {
  EXPECT_THAT(complaints_about("int a;\n// fine\n// At most so many.\n"),
              ElementsAre("src/a/b.cc:3: 'so many': write \"this many\""));
}

TEST(PhraseListTest, ReadsOnAcrossLinesMarkersAndLiterals) {
  EXPECT_THAT(complaints_about("/// It runs once\n/// a rank.\n"),
              ElementsAre(HasSubstr("b.cc:1")));
  EXPECT_THAT(complaints_about("# at most so\n# many.\n"), ElementsAre(HasSubstr("so many")));
  EXPECT_THAT(complaints_about("return \"waits for \"\n    \"ever\";\n"),
              ElementsAre(HasSubstr("for ever")));
  EXPECT_THAT(complaints_about("once\n\na rank."), IsEmpty()) << "another paragraph";
}

TEST(PhraseListTest, FindsEveryOccurrence) {
  EXPECT_THAT(complaints_about("so many, so many and so many"), ::testing::SizeIs(3));
}

TEST(PhraseListTest, TheTreeSaysItInPlainEnglish) {
  const std::vector<File> files =
      files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cc", ".cu", ".cuh", ".py", ".md", ".toml"});
  ASSERT_FALSE(files.empty());
  for (const File& file : files) {
    for (const std::string& complaint : foreign_phrases(file)) ADD_FAILURE() << complaint;
  }
}

}  // namespace
}  // namespace lockstep::tidy
