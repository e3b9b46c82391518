// What a simulated run of a C++ program leaves on the disk, and what twice says about it.
#include "lockstep/harness/run/detail/run_files.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/run.h"

#include "tests/support/temp_folder.h"
#include "tests/support/text_of.h"

namespace lockstep::testing {

namespace {

namespace fs = std::filesystem;

/// Two steps of a linear model; rank 1 has another learning rate if `skewed`.
std::function<void(RankContext&)> training(bool skewed) {
  return [skewed](RankContext& rank) {
    Generator seed(0);
    nn::Linear model(rank.runtime(), 2, 1, seed);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = skewed && rank.rank() == 1 ? 0.5 : 0.25});
    const Tensor x = Tensor::full(rank.runtime(), {1, 2}, DType::kF32, 0.5);
    const Tensor y = Tensor::full(rank.runtime(), {1, 1}, DType::kF32, 1.0);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp(Variable(x)), y).backward();
      optimizer.step();
    }
  };
}

std::optional<std::string> nothing(std::string_view /*variable*/) { return std::nullopt; }

TEST(RunFilesTest, ATraceThatIsLeftIsJudgedAsTheRunWas) {
  const TempFolder folder;
  for (const bool skewed : {false, true}) {
    const auto run =
        run_ranks({.ranks = 2, .backend = "sim", .trace = folder.path()}, training(skewed));

    const Result<LoadedTrace> loaded = read_jsonl(folder.path());
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_TRUE(loaded.value().notes.empty());
    const Result<Report> again = check_trace(loaded.value(), {}, {});
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again.value().ok(), !skewed);
    EXPECT_EQ(again.value().n_findings(), run.report.n_findings());
    EXPECT_EQ(again.value().result_digest, run.report.result_digest);
  }
}

TEST(RunFilesTest, AReportIsOfTheKindThatItsNameAsksFor) {
  const TempFolder folder;
  const auto report = [&](const std::string& name) {
    const std::string path = folder.path() + "/" + name;
    run_ranks({.ranks = 2, .backend = "sim", .report = path}, training(true));
    return text_of(path);
  };
  const std::string page = report("run.html");
  EXPECT_EQ(page.find("<!DOCTYPE html>"), 0U);
  EXPECT_NE(page.find("lr-per-rank"), std::string::npos);
  EXPECT_EQ(page.find("No losses were recorded"), std::string::npos);
  EXPECT_NE(report("run.json").find("\"replicas-equal\""), std::string::npos);
  EXPECT_NE(report("run.xml").find("<testsuite"), std::string::npos);
  EXPECT_NE(report("run.perfetto.json").find("\"all_reduce #"), std::string::npos);
  EXPECT_THROW(report("run.pdf"), std::invalid_argument);
}

TEST(RunFilesTest, TheEnvironmentAsksWhereTheOptionsAreSilent) {
  const auto environment = [](std::string_view variable) -> std::optional<std::string> {
    if (variable == "LOCKSTEP_TRACE") return "traces";
    if (variable == "LOCKSTEP_REPORT") return "why.html";
    return std::nullopt;
  };
  const detail::RunFiles asked = detail::run_files({}, environment);
  EXPECT_EQ(asked.trace, "traces");
  EXPECT_EQ(asked.report, "why.html");

  const detail::RunFiles own = detail::run_files({.trace = "t", .report = "r.json"}, environment);
  EXPECT_EQ(own.trace, "t");
  EXPECT_EQ(own.report, "r.json");
  EXPECT_FALSE(detail::run_files({}, nothing).any());
}

TEST(RunFilesTest, ANumberInTheNameMakesItNewEachTime) {
  const TempFolder folder;
  const std::string pattern = folder.path() + "/run-%n.json";
  for (int i = 0; i < 2; ++i) {
    run_ranks({.ranks = 2, .backend = "sim", .report = pattern}, training(false));
  }
  EXPECT_TRUE(fs::exists(folder.path() + "/run-1.json"));
  EXPECT_TRUE(fs::exists(folder.path() + "/run-2.json"));
  EXPECT_FALSE(fs::exists(folder.path() + "/run-3.json"));
}

TEST(RunFilesTest, FilesChangeNothingThatIsReported) {
  const TempFolder folder;
  const auto plain = run_ranks({.ranks = 2, .backend = "sim"}, training(false));
  const auto traced =
      run_ranks({.ranks = 2, .backend = "sim", .trace = folder.path()}, training(false));

  EXPECT_EQ(traced.report.trace_digest, plain.report.trace_digest);
  EXPECT_EQ(traced.report.result_digest, plain.report.result_digest);
}

LawResult deterministic(const Report& report) {
  for (const LawResult& law : report.laws) {
    if (law.law == "deterministic") return law;
  }
  return {};
}

TEST(RunTwiceTest, AProgramThatReadsItsAddressesIsNoticed) {
  const RunOptions twice{.ranks = 2, .backend = "sim", .twice = true};
  const auto healthy = run_ranks(twice, training(false));
  EXPECT_TRUE(healthy.ok()) << healthy;
  EXPECT_EQ(deterministic(healthy.report).n_checked, 1);
  EXPECT_TRUE(deterministic(run_ranks({.ranks = 2}, training(false)).report).law.empty());

  int n_calls = 0;  // What a program keeps outside of itself changes from run to run.
  const auto counting = run_ranks(twice, [&](RankContext& rank) {
    rank.annotate().decision("call", n_calls++ / rank.world_size());
  });
  const LawResult law = deterministic(counting.report);
  EXPECT_EQ(law.verdict, Verdict::kBroken);
  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_NE(law.findings[0].message.find("decision"), std::string::npos) << law.findings[0].message;
}

TEST(RunTwiceTest, SaysInWhichElementRanksDifferAndByHowMuch) {
  for (const bool twice : {false, true}) {
    const auto run = run_ranks({.ranks = 2, .backend = "sim", .twice = twice}, training(true));
    ASSERT_FALSE(run.ok());
    const std::string text = render_text(run.report, false);
    EXPECT_EQ(text.find("that element is") != std::string::npos, twice) << text;
    EXPECT_EQ(deterministic(run.report).verdict, Verdict::kHolds);
  }
}

}  // namespace

}  // namespace lockstep::testing
