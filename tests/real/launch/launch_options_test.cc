// What the launcher makes of its options, without starting anything.
#include "lockstep/real/launch/launch_options.h"

#include <csignal>
#include <map>

#include <gtest/gtest.h>

#include "lockstep/real/launch/failure_report.h"
#include "lockstep/real/launch/rank_logs.h"
#include "lockstep/real/launch/worker_environment.h"

namespace lockstep::launch {
namespace {

using Inherited = std::map<std::string, std::string, std::less<>>;

std::map<std::string, std::string> variables_of(const LaunchOptions& options,
                                                std::int32_t local_rank,
                                                const Inherited& inherited = {}) {
  const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = inherited.find(name);
    if (found == inherited.end()) return std::nullopt;
    return found->second;
  };
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] :
       worker_environment(options, {.rendezvous = "/r", .logs = "/l"}, local_rank, 1, lookup)) {
    variables[name] = value;
  }
  return variables;
}

TEST(LaunchOptionsTest, RanksCompareWhatArrivesWhenAskedTo) {
  LaunchOptions options;
  EXPECT_EQ(variables_of(options, 0).count("LOCKSTEP_CHECK_ARRIVALS"), 0U) << "as inherited";
  options.check_arrivals = true;
  EXPECT_EQ(variables_of(options, 0).at("LOCKSTEP_CHECK_ARRIVALS"), "1");
}

TEST(LaunchOptionsTest, RanksCountOverMachines) {
  LaunchOptions options;
  options.n_per_node = 4;
  options.n_nodes = 3;
  options.node_rank = 2;
  const auto variables = variables_of(options, 1);
  EXPECT_EQ(variables.at("RANK"), "9");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "12");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(variables.at("GROUP_RANK"), "2");
  EXPECT_EQ(variables.at("GROUP_WORLD_SIZE"), "3");
  EXPECT_EQ(variables.at("ROLE_RANK"), "9");
  EXPECT_EQ(variables.at("TORCHELASTIC_RESTART_COUNT"), "1");
  EXPECT_EQ(variables.at("TORCHELASTIC_ERROR_FILE"), "/l/attempt_1/1/error.json");
  EXPECT_EQ(variables.at("LOCKSTEP_RENDEZVOUS"), "/r");
}

TEST(LaunchOptionsTest, ThreadsAreLimitedOnlyByDefault) {
  LaunchOptions options;
  EXPECT_FALSE(variables_of(options, 0).contains("OMP_NUM_THREADS"));
  options.n_per_node = 2;
  EXPECT_EQ(variables_of(options, 0).at("OMP_NUM_THREADS"), "1");
  EXPECT_FALSE(variables_of(options, 0, {{"OMP_NUM_THREADS", "5"}}).contains("OMP_NUM_THREADS"));
}

TEST(LaunchOptionsTest, StreamsAreChosenForAllOrByRank) {
  const auto all = parse_streams("3");
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all.value().contains(5, 0));
  EXPECT_TRUE(all.value().contains(5, 1));
  const auto some = parse_streams("0:1,2:2");
  ASSERT_TRUE(some.ok());
  EXPECT_TRUE(some.value().contains(0, 0));
  EXPECT_FALSE(some.value().contains(0, 1));
  EXPECT_FALSE(some.value().contains(1, 0));
  EXPECT_TRUE(some.value().contains(2, 1));
  for (const char* wrong : {"", "4", "-1", "x", "0:", ":1", "0:1,2", "0:4"}) {
    EXPECT_FALSE(parse_streams(wrong).ok()) << wrong;
  }
}

TEST(LaunchOptionsTest, OptionsThatMakeNoSenseAreNamed) {
  LaunchOptions good;
  good.command = {"true"};
  EXPECT_EQ(complaint(good), "");
  const auto with = [&](auto change) {
    LaunchOptions options = good;
    change(options);
    return complaint(options);
  };
  EXPECT_NE(with([](auto& o) { o.command.clear(); }).find("no program"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.n_per_node = 0; }).find("--nproc-per-node"), std::string::npos);
  EXPECT_EQ(with([](auto& o) { o.n_per_node = 100'000'000; }),
            "--nproc-per-node is 100000000; Linux runs at most 4194304 processes on a machine");
  EXPECT_NE(with([](auto& o) { o.node_rank = 1; }).find("--node-rank 1"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.master_port = 65536; }).find("65536"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.max_restarts = -1; }).find("--max-restarts"), std::string::npos);
}

TEST(LaunchOptionsTest, AVirtualLocalRankSeesItsOwnDeviceAlone) {
  LaunchOptions options;
  options.n_per_node = 2;
  options.virtual_local_rank = true;
  EXPECT_EQ(variables_of(options, 1).at("LOCAL_RANK"), "0");
  EXPECT_EQ(variables_of(options, 1).at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(variables_of(options, 1, {{"CUDA_VISIBLE_DEVICES", "7, 5"}}).at("CUDA_VISIBLE_DEVICES"),
            "5");
  EXPECT_EQ(variables_of(options, 1).at("RANK"), "1");
}

TEST(LaunchOptionsTest, SignalsAreReadByName) {
  EXPECT_EQ(parse_signals("SIGTERM,SIGUSR1").value(), (std::vector<int>{SIGTERM, SIGUSR1}));
  EXPECT_EQ(parse_signals("SIGTREM").error().text(),
            "'SIGTREM' is not a signal; did you mean 'SIGTERM'?");
  for (const char* wrong : {"", "SIGKILL", "SIGSTOP", "SIGCHLD", "TERM", "15"}) {
    EXPECT_FALSE(parse_signals(wrong).ok()) << wrong;
  }
}

TEST(RankLogsTest, APrefixNamesTheRankItsRoleAndItsMachine) {
  LaunchOptions options;
  options.n_per_node = 4;
  options.n_nodes = 2;
  options.node_rank = 1;
  EXPECT_EQ(render_prefix(options, 2), "[rank 6] ");
  options.role = "trainer";
  options.prefix = "${role_name}${local_rank}/${rank}/${other}:";
  EXPECT_EQ(render_prefix(options, 2), "trainer2/6/${other}:");
}

TEST(FailureReportTest, ReportsTheFirstFailureFirst) {
  EXPECT_EQ(status_text(3), "exit code 3");
  EXPECT_EQ(status_text(-9), "signal 9 (SIGKILL)");
  const std::string text =
      render_failures({{.rank = 5, .local_rank = 1, .pid = 7, .status = -9, .message = ""},
                       {.rank = 4, .pid = 6, .status = 2, .message = "oh"}},
                      "train",
                      2);
  EXPECT_EQ(text,
            "train failed, 2 restarts included\n"
            "  first failure: rank 5 (local rank 1, pid 7, attempt 0): signal 9 (SIGKILL)\n"
            "  then:          rank 4 (local rank 0, pid 6, attempt 0): exit code 2: oh\n");
}

}  // namespace
}  // namespace lockstep::launch
