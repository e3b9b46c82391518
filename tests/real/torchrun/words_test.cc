// What the launcher makes of torchrun's words, without starting anything. tests/real/launch/torchrun_test.py holds
// the same words against PyTorch.
#include "lockstep/real/torchrun/words.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::torchrun {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Result<Reading> reading_of(const Words& words,
                           const Program& program = {.words = {"train.py", "--lr", "1"}},
                           const Variables& variables = {}) {
  return read_words(words, program, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

/// Words with one change.
template <typename Change>
Words with(Change change) {
  Words words;
  change(words);
  return words;
}

template <typename Change>
std::string complaint_about(Change change) {
  const Result<Reading> read = reading_of(with(change));
  return read.ok() ? "none" : read.error().text();
}

TEST(TorchrunWordsTest, AScriptIsRunByPythonAndAProgramAsItIs) {
  using Command = std::vector<std::string>;
  EXPECT_EQ(reading_of({}).value().options.command,
            (Command{"python3", "-u", "train.py", "--lr", "1"}));
  EXPECT_EQ(reading_of({}, {.words = {"x.py"}}, {{"PYTHON_EXEC", "/p"}}).value().options.command,
            (Command{"/p", "-u", "x.py"}));
  EXPECT_EQ(reading_of(with([](Words& w) { w.module = true; }), {.words = {"pkg.train"}})
                .value()
                .options.command,
            (Command{"python3", "-u", "-m", "pkg.train"}));
  EXPECT_EQ(reading_of(with([](Words& w) { w.no_python = true; }), {.words = {"./a", "b"}})
                .value()
                .options.command,
            (Command{"./a", "b"}));
  EXPECT_EQ(reading_of({}, {.words = {"./a", "b"}, .after_dashes = true}).value().options.command,
            (Command{"./a", "b"}));
}

TEST(TorchrunWordsTest, TheOldLauncherPutsTheLocalRankBeforeTheScriptsOwnArguments) {
  Words words = with([](Words& w) { w.as = "torch.distributed.launch"; });
  const auto options = reading_of(words).value().options;
  EXPECT_EQ(launch::command_of(options, 3),
            (std::vector<std::string>{"python3", "-u", "train.py", "--local-rank=3", "--lr", "1"}));
  words.use_env = true;
  const auto without = reading_of(words).value().options;
  EXPECT_EQ(launch::command_of(without, 3), without.command);
  EXPECT_EQ(launch::command_of(reading_of({}).value().options, 3).size(), 5U) << "torchrun's way";
}

TEST(TorchrunWordsTest, OneMachineWithoutAPlaceTakesAnyPortAndANameOfItsOwn) {
  const auto alone = reading_of({}).value().options;
  EXPECT_TRUE(alone.any_port);
  EXPECT_EQ(alone.master_addr, "localhost");
  EXPECT_EQ(alone.run_id, "");

  const auto placed = reading_of(with([](Words& w) { w.master_port = 4000; })).value().options;
  EXPECT_FALSE(placed.any_port);
  EXPECT_EQ(placed.master_addr, "127.0.0.1");
  EXPECT_EQ(placed.master_port, 4000);
  EXPECT_EQ(placed.run_id, "none");

  const auto two = reading_of(with([](Words& w) { w.nnodes = "2"; })).value().options;
  EXPECT_FALSE(two.any_port);
  EXPECT_EQ(two.master_port, 29500);
}

TEST(TorchrunWordsTest, AnEndpointIsWhereRanksOrLaunchersMeet) {
  const auto fixed =
      reading_of(with([](Words& w) { w.rdzv_endpoint = "[::1]:4000"; })).value().options;
  EXPECT_EQ(fixed.master_addr, "[::1]");
  EXPECT_EQ(fixed.master_port, 4000);

  const auto c10d = [](Words& w) {
    w.rdzv_backend = "c10d";
    w.rdzv_endpoint = "host:4000";
    w.nnodes = "2";
    w.node_rank = 1;
  };
  const auto several = reading_of(with(c10d)).value().options;
  EXPECT_EQ(several.master_addr, "host");
  EXPECT_EQ(several.launcher_port, 4000);
  EXPECT_EQ(several.master_port, 4001);
  EXPECT_EQ(several.node_rank, 1);
}

TEST(TorchrunWordsTest, WordsWithoutAnEffectAreSaid) {
  EXPECT_TRUE(reading_of({}).value().notices.empty());
  const auto notices = [](auto change) { return reading_of(with(change)).value().notices; };
  EXPECT_EQ(notices([](Words& w) { w.start_method = "fork"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.event_log_handler = "console"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.numa_binding = "node"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.use_env = true; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.nnodes = "1:4"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.rdzv_id = "mine"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.rdzv_conf = "read_timeout=5"; }).size(), 1U);
  EXPECT_EQ(notices([](Words& w) { w.rdzv_conf = "join_timeout=5"; }).size(), 0U);
}

TEST(TorchrunWordsTest, WhatCannotBeFollowedIsRefusedWithItsName) {
  const std::vector<std::pair<std::string, std::string>> found = {
      {complaint_about([](Words& w) { w.rdzv_backend = "etcd-v2"; }), "--rdzv-backend etcd-v2"},
      {complaint_about([](Words& w) { w.rdzv_backend = "c1od"; }), "did you mean 'c10d'?"},
      {complaint_about([](Words& w) { w.nnodes = "3:2"; }), "MIN is above MAX"},
      {complaint_about([](Words& w) { w.nnodes = "two"; }), "--nnodes: 'two'"},
      {complaint_about([](Words& w) { w.nproc_per_node = "gpus"; }), "did you mean 'gpu'?"},
      {complaint_about([](Words& w) { w.master_port = 65536; }), "--master-port 65536"},
      {complaint_about([](Words& w) { w.rdzv_endpoint = "host:http"; }), "'host:http'"},
      {complaint_about([](Words& w) { w.rdzv_endpoint = "host"; }), "HOST:PORT"},
      {complaint_about([](Words& w) { w.rdzv_conf = "timeout"; }), "--rdzv-conf timeout"},
      {complaint_about([](Words& w) { w.logs_specs = "mine"; }), "--logs-specs mine"},
      {complaint_about([](Words& w) { w.local_ranks_filter = "0,x"; }), "--local-ranks-filter 0,x"},
      {complaint_about([](Words& w) {
         w.rdzv_backend = "c10d";
         w.nnodes = "2";
       }),
       "--node-rank"}};
  for (const auto& [complaint, words] : found) {
    EXPECT_NE(complaint.find(words), std::string::npos) << complaint;
  }
}

TEST(TorchrunWordsTest, AMaskHidesDevicesAndAVirtualRankNeedsOneOfItsOwn) {
  const Words gpu = with([](Words& w) { w.nproc_per_node = "gpu"; });
  EXPECT_FALSE(reading_of(gpu, {.words = {"x.py"}}, {{"CUDA_VISIBLE_DEVICES", ""}}).ok());
  EXPECT_FALSE(reading_of(gpu, {.words = {"x.py"}}, {{"CUDA_VISIBLE_DEVICES", "-1"}}).ok());
  const Words virtual_ranks = with([](Words& w) {
    w.virtual_local_rank = true;
    w.nproc_per_node = "3";
  });
  const auto few =
      reading_of(virtual_ranks, {.words = {"x.py"}}, {{"CUDA_VISIBLE_DEVICES", "4,5"}});
  ASSERT_FALSE(few.ok());
  EXPECT_NE(few.error().text().find("no device for rank 2 of 3"), std::string::npos);
}

TEST(TorchrunWordsTest, FiltersAreSplitAtSingleCommas) {
  const auto options =
      reading_of(with([](Words& w) { w.duplicate_stderr_filters = "a,b,,c"; })).value().options;
  EXPECT_TRUE(options.duplicates[0].empty());
  EXPECT_EQ(options.duplicates[1], (std::vector<std::string>{"a", "b,c"}));
}

}  // namespace
}  // namespace lockstep::torchrun
