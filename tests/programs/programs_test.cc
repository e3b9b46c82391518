// Generated jobs against what PyTorch did with them, and against the grammar of collectives.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "tests/golden/golden_file.h"
#include "tests/programs/call_grammar.h"
#include "tests/programs/drawing.h"
#include "tests/programs/run.h"

namespace lockstep::programs {
namespace {

using Texts = std::vector<std::string>;

TEST(ProgramTest, ALineReadsBackAsItself) {
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::string line = text_of(draw_program(11, i));
    EXPECT_EQ(text_of(parse_program(line)), line);
  }
}

bool hangs(const Answer& answer) {
  return std::any_of(answer.begin(), answer.end(), [](const auto& line) {
    return line.first.starts_with("x ") && line.second.find("mismatch") != std::string::npos;
  });
}

// PyTorch hangs in such a job, and the comparison with it.
TEST(ProgramTest, NoDrawnJobLetsRanksCallDifferentCollectives) {
  sim::Session session;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const Program program = draw_program(606500004, i);
    EXPECT_FALSE(hangs(run_program(session, program, {}))) << text_of(program);
  }
}

// Rank 0 uses none of the wrapper's parameters in its first step, so its backward reduces nothing.
TEST(ProgramTest, ABackwardThroughIgnoredParametersAloneReducesNothing) {
  sim::Session session;
  const Program program = parse_program(
      "world=2 seed=640191 rows=3 in=2 steps=s zero=none hook=none flaw=none static=0 find=1 "
      "view=0 buffers=1 cap=76 first=1048576 ignored=b0.l0.weight join= divide=1 throw=0 "
      "branch=all/f32/L2x3/out branch=odd/f32/L2x3b/out");
  const Answer answer = run_program(session, program, {});
  const auto reductions = [&answer](std::int32_t rank) {
    const Texts calls = calls_in(answer, rank);
    return std::ranges::count_if(calls,
                                 [](const std::string& c) { return c.starts_with("AR f32 "); });
  };
  EXPECT_EQ(reductions(0), 0);
  EXPECT_EQ(reductions(1), 1);
}

// ---- against PyTorch

/// A job of the golden file, and what PyTorch answered.
struct GoldenJob {
  std::string line;
  Answer answer;
};

std::vector<GoldenJob> golden_jobs(const std::string& name) {
  std::vector<GoldenJob> jobs;
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/" + name);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#") || line.empty()) continue;
    const std::size_t cut = line.find(" : ");
    const std::string key = line.substr(0, cut);
    const std::string value = cut == std::string::npos ? "" : line.substr(cut + 3);
    if (key == "job") {
      jobs.push_back({value, {}});
    } else {
      jobs.back().answer[key] = value;
    }
  }
  return jobs;
}

// Long lists of numbers are kept as their digest.
std::string shortened(const std::string& key, const std::string& text) {
  if (std::string_view("gpb").find(key[0]) == std::string_view::npos) return text;
  std::uint64_t state = 0xcbf29ce484222325ULL;
  for (const char letter : text) {
    state = (state ^ static_cast<std::uint8_t>(letter)) * 0x100000001b3ULL;
  }
  return hex64(state);
}

Answer shortened(const Answer& answer) {
  Answer out;
  for (const auto& [key, text] : answer) {
    std::string flat = shortened(key, text);
    for (std::size_t at = 0; (at = flat.find('\n', at)) != std::string::npos; at += 2) {
      flat.replace(at, 1, "\\n");
    }
    out[key] = flat;
  }
  return out;
}

void expect_equal(const std::string& name, Compat compat) {
  sim::Session session;
  const std::vector<GoldenJob> jobs = golden_jobs(name);
  ASSERT_EQ(jobs.size(), 24U);
  for (const GoldenJob& job : jobs) {
    const Program program = parse_program(job.line);
    EXPECT_EQ(shortened(run_program(session, program, {.compat = compat})), job.answer) << job.line;
  }
}

TEST(DdpGoldenTest, JobsEndAsOnPyTorch113BitForBit) { expect_equal("ddp.txt", Compat::kTorch1); }

TEST(DdpGoldenTest, JobsEndAsOnPyTorch2BitForBit) {
  expect_equal("ddp_torch2.txt", Compat::kTorch2);
}

TEST(DdpGoldenTest, PlantedMistakesAreNoticed) {
  sim::Session session;
  for (const Mistake mistake :
       {Mistake::kDivideAfter, Mistake::kOtherOrder, Mistake::kMeanOfMeans, Mistake::kOneBucket}) {
    std::size_t n_noticed = 0;
    for (const GoldenJob& job : golden_jobs("ddp.txt")) {
      const Answer answer = run_program(
          session, parse_program(job.line), {.compat = Compat::kTorch1, .mistake = mistake});
      if (shortened(answer) != job.answer) ++n_noticed;
    }
    EXPECT_GE(n_noticed, 3U) << static_cast<int>(mistake);
  }
}

// ---- the grammar

constexpr std::int64_t kJobs = 400;

bool failed(const Answer& answer, std::int32_t world) {
  for (std::int32_t rank = 0; rank < world; ++rank) {
    if (answer.contains("x " + std::to_string(rank))) return true;
  }
  return false;
}

TEST(CallGrammarTest, EveryJobFollowsItOnEveryRankUnderEverySchedule) {
  sim::Session session;
  std::int64_t n_whole = 0;
  for (std::int64_t i = 0; i < kJobs; ++i) {
    const Program program = draw_program(2026, i, 6);
    const RunSettings settings{.compat = i % 3 == 0 ? Compat::kTorch1 : Compat::kTorch2,
                               .strategy = "random",
                               .schedule_seed = static_cast<std::uint64_t>(i)};
    if (program.flaw != "none") continue;
    const Answer answer = run_program(session, program, settings);
    const bool early = failed(answer, program.world);
    n_whole += early ? 0 : 1;
    const Texts first = calls_in(answer, 0);
    for (std::int32_t rank = 0; rank < program.world; ++rank) {
      EXPECT_EQ(calls_in(answer, rank), first) << text_of(program);
    }
    // Version 1.13 broadcasts buffers once even where they stay local.
    if (settings.compat == Compat::kTorch1 && !program.broadcast) continue;
    EXPECT_EQ(violation(program, first, early), "") << text_of(program) << "\n" << join(first);
  }
  EXPECT_GT(n_whole, 300);
}

TEST(CallGrammarTest, ADifferentScheduleChangesNothing) {
  sim::Session session;
  for (std::int64_t i = 0; i < 60; ++i) {
    const Program program = draw_program(7, i, 6);
    const Answer one = run_program(session, program, {});
    const Answer other =
        run_program(session, program, {.strategy = "random", .schedule_seed = 12345});
    EXPECT_EQ(one, other) << text_of(program);
  }
}

/// Each way to spoil one call of a list: lost, doubled, swapped with the next, other size, other
/// type, other operation.
std::vector<Texts> mutations(const Texts& calls, std::size_t at) {
  std::vector<Texts> all(4, calls);
  const auto place = static_cast<std::ptrdiff_t>(at);
  all[0].erase(all[0].begin() + place);
  all[1].insert(all[1].begin() + place, calls[at]);
  all[2][at] += "0";
  all[3][at].replace(all[3][at].find(' '), 4, " u8");
  if (at + 1 < calls.size() && calls[at] != calls[at + 1]) {
    all.push_back(calls);
    std::swap(all.back()[at], all.back()[at + 1]);
  }
  if (calls[at].starts_with("B0")) {
    all.push_back(calls);
    all.back()[at].replace(0, 2, "AR");
  }
  return all;
}

// A spoiled list may be another job's, but never this one's. Only the sizes of buckets are free.
TEST(CallGrammarTest, SpoiledCallsAreRejected) {
  sim::Session session;
  std::int64_t n_spoiled = 0;
  std::int64_t n_accepted = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    const Program program = draw_program(5, i, 4);
    if (program.flaw != "none") continue;
    const Answer answer = run_program(session, program, {});
    const Texts calls = calls_in(answer, 0);
    if (failed(answer, program.world)) continue;
    for (std::size_t at = 0; at < calls.size(); ++at) {
      for (const Texts& spoiled : mutations(calls, at)) {
        ++n_spoiled;
        n_accepted += violation(program, spoiled, false).empty() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(n_spoiled, 3000);
  // Two neighbouring buckets of a first launch may be swapped if they are never launched again.
  EXPECT_LT(n_accepted * 100, n_spoiled);
}

}  // namespace
}  // namespace lockstep::programs
