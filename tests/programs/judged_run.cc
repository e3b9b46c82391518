#include "tests/programs/judged_run.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep::programs {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByTheClock = "A-straggler";

std::string complaint_file(int rank) { return "complaint-" + std::to_string(rank); }

// What a launcher would do for this process.
void become_rank(int rank, std::int32_t ranks, const std::string& folder) {
  const std::string world = std::to_string(ranks);
  const std::string self = std::to_string(rank);
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", self},
      {"LOCAL_RANK", self},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", world},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"LOCKSTEP_BACKEND", "gloo"},
      {"LOCKSTEP_RENDEZVOUS", folder + "/rendezvous"},
  };
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);  // NOLINT
  fs::current_path(folder);
}

void run_as_rank(const Program& program, std::int32_t ranks, std::string_view ignored_advice) {
  RunOptions options{.ranks = ranks, .rethrow = false};
  options.timeout = std::chrono::seconds(10);
  const auto run = run_ranks(options, [&](RankContext& rank) { program(rank); });
  const std::string said = accusations(run.report, ignored_advice);
  if (!said.empty()) {
    std::ofstream(complaint_file(std::atoi(std::getenv("RANK")))) << said;  // NOLINT
  }
}

}  // namespace

Report simulated(const Program& program,
                 std::int32_t ranks,
                 const std::string& strategy,
                 std::uint64_t seed) {
  RunOptions options{.ranks = ranks, .backend = "sim", .rethrow = false};
  options.strategy = strategy;
  options.schedule_seed = seed;
  return run_ranks(options, [&](RankContext& rank) { program(rank); }).report;
}

std::string complaint_on_gloo(const Program& program,
                              std::int32_t ranks,
                              std::string_view ignored_advice) {
  const testing::TempFolder folder;
  const std::vector<int> statuses = testing::run_processes(ranks, [&](int rank) {
    become_rank(rank, ranks, folder.path());
    run_as_rank(program, ranks, ignored_advice);
  });
  std::string text;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank] != 0) {
      text +=
          "rank " + std::to_string(rank) + " ended with " + std::to_string(statuses[rank]) + "\n";
    }
  }
  if (!text.empty()) return text;
  std::ostringstream said;
  std::ifstream file(folder.path() + "/" + complaint_file(0));
  if (file) said << file.rdbuf();
  return said.str();
}

std::string accusations(const Report& report, std::string_view ignored_advice) {
  std::string text;
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) text += sentence(finding) + "\n";
    for (const Advice& advice : law.advice) {
      if (advice.id != ignored_advice && advice.id != kByTheClock)
        text += advice.id + ": " + advice.message + "\n";
    }
  }
  if (!report.error.empty()) text += "error: " + report.error + "\n";
  if (text.empty() && !report.ok()) text = "outcome: " + std::string(name_of(report.outcome));
  return text;
}

}  // namespace lockstep::programs
