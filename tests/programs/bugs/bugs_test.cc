// Reported bugs as ordinary programs: which of them are noticed, by what, and where. What the page
// says is what is true today: a bug that becomes noticed fails this test until the page says so.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/programs/bugs/bug.h"
#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/judged_run.h"
#include "tests/support/text_of.h"

namespace lockstep::programs {

namespace {

constexpr const char* kPage = LOCKSTEP_SOURCE_DIR "/docs/programs.md";
constexpr std::string_view kBegin = "<!-- table: begin -->\n";
constexpr std::string_view kEnd = "<!-- table: end -->\n";
constexpr std::string_view kContract = "contract";

std::vector<Bug> all_bugs() {
  std::vector<Bug> all;
  for (const auto& list : {start_bugs,
                           gradient_bugs,
                           call_bugs,
                           state_bugs,
                           data_bugs,
                           input_bugs,
                           script_bugs,
                           loop_bugs,
                           copy_bugs}) {
    const std::vector<Bug> some = list();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Program program_of(const Bug& bug, Form form) {
  return [body = bug.program, form](RankContext& rank) { body(rank, form); };
}

/// What a report says, held against what it should say.
struct Seen {
  /// Laws that were broken, or kContract, or advice where neither is; empty: nothing was noticed.
  std::set<std::string> by;
  bool right_law = false;
  bool right_place = false;
  bool right_cause = false;
};

bool is_at(const Finding& finding, const Expected& expected) {
  std::vector<std::int32_t> ranks;
  const std::vector<Rank>& blamed = finding.missing.empty() ? finding.ranks : finding.missing;
  for (const Rank rank : blamed) ranks.push_back(to_int(rank));
  const bool all_alike = expected.ranks.empty();
  return (all_alike || ranks == expected.ranks) &&
         (!expected.step || finding.step == expected.step) &&
         (expected.tensor.empty() || finding.tensor == expected.tensor);
}

/// Advice is what counts where no law is broken.
Seen judge_advice(const Report& report, const Expected& expected) {
  Seen seen;
  for (const LawResult& law : report.laws) {
    for (const Advice& advice : law.advice) {
      if (advice.about != AdviceSubject::kProgram) continue;
      seen.by.insert("advice " + advice.id);
      const bool right = advice.id == expected.law;
      seen.right_law = seen.right_law || right;
      seen.right_place =
          seen.right_place || (right && advice.message.find(expected.says) != std::string::npos);
    }
  }
  seen.right_cause = seen.right_place;  // Advice says what it has found.
  return seen;
}

Seen judge(const Report& report, const Expected& expected) {
  Seen seen;
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) {
      seen.by.insert(finding.law);
      if (finding.law != expected.law) continue;
      seen.right_law = true;
      const bool right_place = is_at(finding, expected);
      seen.right_place = seen.right_place || right_place;
      seen.right_cause =
          seen.right_cause || (right_place && id_of(finding.cause) == expected.cause);
    }
  }
  if (seen.by.empty() && !report.error.empty()) {
    seen.by.insert(std::string(kContract));
    seen.right_law = expected.law == kContract;
    seen.right_place = seen.right_law && report.error.find(expected.says) != std::string::npos;
    seen.right_cause = seen.right_place;  // A contract says what it has found.
  }
  if (seen.by.empty()) return judge_advice(report, expected);
  return seen;
}

std::set<std::string> laws_broken_in(const Report& report) { return judge(report, {}).by; }

/// By what a bug of this id is noticed.
std::set<std::string> laws_broken_by(std::string_view id) {
  for (const Bug& bug : all_bugs()) {
    if (bug.id == id) return laws_broken_in(simulated(program_of(bug, {}), bug.ranks));
  }
  ADD_FAILURE() << "no bug " << id;
  return {};
}

std::set<std::string> laws_broken_by_twin(std::string_view name) {
  for (const BrokenTwin& twin : window_twins()) {
    if (twin.name == name) return laws_broken_in(simulated(twin.program, twin.ranks));
  }
  ADD_FAILURE() << "no twin " << name;
  return {};
}

std::string row_of(const Bug& bug, Form form) {
  const auto yes = [](bool holds) { return std::string(holds ? "yes" : "no"); };
  const Expected& expected =
      form.annotated && !bug.when_annotated.law.empty() ? bug.when_annotated : bug.expected;
  const Seen seen = judge(simulated(program_of(bug, form), bug.ranks), expected);
  std::string by;
  for (const std::string& one : seen.by) by += (by.empty() ? "" : ", ") + one;
  const std::string start = "| `" + std::string(bug.id) + "` | " +
                            (form.annotated ? "annotated" : "unannotated") + " | " +
                            std::string(expected.law) + " | ";
  if (by.empty()) return start + "**nothing** | | |\n";
  return start + by + " | " + yes(seen.right_place) + " | " + yes(seen.right_cause) + " |\n";
}

std::string table() {
  std::string text =
      "| bug | form | should be noticed by | is noticed by | place right | cause right |\n"
      "|---|---|---|---|---|---|\n";
  std::vector<Bug> bugs = all_bugs();
  std::sort(bugs.begin(), bugs.end(), [](const Bug& a, const Bug& b) { return a.id < b.id; });
  for (const Bug& bug : bugs) {
    text += row_of(bug, {});
    if (bug.has_annotated_form) text += row_of(bug, {.annotated = true});
  }
  return text;
}

std::vector<Form> repaired_forms(const Bug& bug) {
  std::vector<Form> forms = {{.fixed = true}};
  if (bug.has_annotated_form) forms.push_back({.fixed = true, .annotated = true});
  return forms;
}

class BugProgramTest : public ::testing::TestWithParam<Bug> {};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Bug& bug) { return out << bug.id; }

TEST(BugProgramTest, ThePageSaysWhatIsNoticedToday) {
  const std::string page = testing::text_of(kPage);
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t first = begin + kBegin.size();
  const std::string now = table();
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(kPage, std::ios::binary) << page.substr(0, first) + now + page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(first, end - first), now)
      << "LOCKSTEP_UPDATE_GOLDEN=1 rewrites docs/programs.md";
}

// A law is worth its cost if it sees what no other one does.
TEST(BugProgramTest, EachOfTheLastFourLawsHasABugThatNoOtherLawSees) {
  using Laws = std::set<std::string>;
  EXPECT_EQ(laws_broken_by("two-optimizer-leak"), Laws{"accumulated-once"});
  EXPECT_EQ(laws_broken_by("clip-norm-recounted"), Laws{"norm-true"});
  EXPECT_EQ(laws_broken_by_twin("ParametersAveragedOverTooMany"), Laws{"outer-step"});
  EXPECT_EQ(laws_broken_by("optimizer-stale"), Laws{"trained-set"});
}

TEST(BugProgramTest, AllRowsAreHere) { EXPECT_EQ(all_bugs().size(), 70U); }

TEST_P(BugProgramTest, TheRepairedTwinIsQuietUnderTwentySchedules) {
  const Bug& bug = GetParam();
  for (const Form& form : repaired_forms(bug)) {
    const Program fixed = program_of(bug, form);
    EXPECT_EQ(accusations(simulated(fixed, bug.ranks)), "");
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Report report = simulated(fixed, bug.ranks, "random", seed);
      EXPECT_EQ(accusations(report), "") << "seed " << seed;
    }
  }
}

TEST_P(BugProgramTest, TheRepairedTwinIsQuietAsProcesses) {
  const Bug& bug = GetParam();
  for (const Form& form : repaired_forms(bug)) {
    EXPECT_EQ(complaint_on_gloo(program_of(bug, form), bug.ranks), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, BugProgramTest, ::testing::ValuesIn(all_bugs()), [](const auto& row) {
  std::string name(row.param.id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace lockstep::programs
