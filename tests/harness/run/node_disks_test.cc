// Each node has its own disk: programs that forget it, as users write them, and their repairs.
#include <gmock/gmock.h>
#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunOptions two_nodes_of_two() {
  RunOptions options{.ranks = 4, .disks = sim::DiskScope::kNode};
  options.net.ranks_per_node = 2;
  return options;
}

std::int32_t number_in(RankContext& rank, std::string_view variable) {
  return std::stoi(rank.host().environment(variable).value());
}

void must(const Outcome& outcome) {
  if (!outcome.ok()) throw std::runtime_error(outcome.error().text());
}

void train_step(DistributedDataParallel<nn::Linear>& ddp,
                optim::Sgd& optimizer,
                RankContext& rank) {
  const Variable x(Tensor::full(rank.runtime(), {2, 3}, DType::kF32, 0.25 * (rank.rank() + 1)));
  const Tensor y = Tensor::full(rank.runtime(), {2, 1}, DType::kF32, 1.0);
  optimizer.zero_grad();
  mse_loss(ddp(x), y).backward();
  optimizer.step();
}

std::string bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.read_raw()), static_cast<std::size_t>(tensor.n_bytes())};
}

enum class Writer : std::uint8_t { kRank0, kFirstOfEachNode };

// Trains, saves the weights on the machine's own disk, and starts again from them: every rank that
// finds the file takes what is in it.
void save_and_resume(RankContext& rank, Writer writer) {
  Generator init(1);
  nn::Linear model(rank.runtime(), 3, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  train_step(ddp, optimizer, rank);
  FileSystem& files = rank.host().files();
  const Tensor weight = model.parameters().front().data();
  const bool writes =
      writer == Writer::kRank0 ? rank.rank() == 0 : number_in(rank, "LOCAL_RANK") == 0;
  if (writes) {
    must(files.make_folder("ckpt"));
    must(files.publish("ckpt/weight", bytes_of(weight)));
  }
  rank.world().barrier().wait_or_throw();

  train_step(ddp, optimizer, rank);
  const Result<std::string> saved = files.read("ckpt/weight");  // Back to the checkpoint.
  if (saved.ok()) saved.value().copy(static_cast<char*>(weight.write_raw()), saved.value().size());
  train_step(ddp, optimizer, rank);
}

const Finding* finding_of(const Report& report, std::string_view law) {
  for (const LawResult& result : report.laws) {
    if (result.law == law && !result.findings.empty()) return &result.findings.front();
  }
  return nullptr;
}

std::vector<int> ranks_of(const Finding& finding) {
  std::vector<int> ranks;
  for (const Rank rank : finding.ranks) ranks.push_back(to_int(rank));
  return ranks;
}

}  // namespace

TEST(NodeDisksTest, ACheckpointOnTheDiskOfRank0IsMissingOnTheOtherNode) {
  const auto run = run_ranks(two_nodes_of_two(),
                             [](RankContext& rank) { save_and_resume(rank, Writer::kRank0); });
  const Finding* finding = finding_of(run.report, "replicas-equal");
  ASSERT_NE(finding, nullptr) << run;
  EXPECT_EQ(finding->tensor, "weight");
  EXPECT_EQ(finding->step, 2);
}

TEST(NodeDisksTest, ACopyOnEachNodeOrADiskForAllIsHealthy) {
  const auto copied = run_ranks(two_nodes_of_two(), [](RankContext& rank) {
    save_and_resume(rank, Writer::kFirstOfEachNode);
  });
  EXPECT_TRUE(copied.ok()) << copied;

  RunOptions shared = two_nodes_of_two();
  shared.disks = sim::DiskScope::kShared;
  const auto one =
      run_ranks(shared, [](RankContext& rank) { save_and_resume(rank, Writer::kRank0); });
  EXPECT_TRUE(one.ok()) << one;
}

TEST(NodeDisksTest, AFolderThatOnlyRank0MadeIsMissingOnTheOtherNode) {
  const auto program = [](bool on_each_node) {
    return [=](RankContext& rank) {
      FileSystem& files = rank.host().files();
      const bool makes = on_each_node ? number_in(rank, "LOCAL_RANK") == 0 : rank.rank() == 0;
      if (makes) must(files.make_folder("logs"));
      rank.world().barrier().wait_or_throw();
      must(files.write("logs/" + std::to_string(rank.rank()), "started"));
      rank.world().barrier().wait_or_throw();
    };
  };
  RunOptions options = two_nodes_of_two();
  options.rethrow = false;
  const auto broken = run_ranks(options, program(false));
  EXPECT_THAT(broken.report.error, HasSubstr("rank 2: "));
  EXPECT_THAT(broken.report.error, HasSubstr("no such folder 'logs'"));
  EXPECT_TRUE(run_ranks(options, program(true)).ok());
}

TEST(NodeDisksTest, RanksOfANodeShareItsDisk) {
  const auto run = run_ranks(two_nodes_of_two(), [](RankContext& rank) {
    FileSystem& files = rank.host().files();
    if (number_in(rank, "LOCAL_RANK") == 0) must(files.write("from", std::to_string(rank.rank())));
    rank.world().barrier().wait_or_throw();
    return std::stoi(files.read("from").value());
  });
  EXPECT_THAT(run.results, ElementsAre(0, 0, 2, 2));
}

// A scheduler asks for more machines after a failure: the one that joins has an empty disk.
TEST(NodeDisksTest, ANodeThatJoinsARestartFindsItsDiskEmpty) {
  RunOptions options{.ranks = 2, .disks = sim::DiskScope::kNode};
  options.net.ranks_per_node = 1;
  options.faults = {
      {.kind = sim::FaultKind::kException, .rank = 1, .at = CollectiveOp::kAllReduce}};
  options.agent = sim::AgentOptions{.max_restarts = 1, .n_ranks_later = {3}};
  const auto run = run_ranks(options, [](RankContext& rank) {
    const bool had_files = rank.host().files().read("state").ok();
    must(rank.host().files().publish("state", "1"));
    double one = 1.0;
    rank.world().all_reduce(Memory::of(std::span<double>(&one, 1))).wait_or_throw();
    return had_files;
  });
  EXPECT_THAT(run.results, ElementsAre(true, true, false));
}

// What the program says of its files does not make two nodes' files one.
TEST(NodeDisksTest, WritersOfTwoNodesWriteTwoFiles) {
  const auto program = [](RankContext& rank) {
    if (number_in(rank, "LOCAL_RANK") != 0) return;
    must(rank.host().files().publish("model", "weights"));
    rank.annotate().snapshot(SnapshotAction::kPart, 1, "model", 7);
  };
  EXPECT_TRUE(run_ranks(two_nodes_of_two(), program).ok());

  RunOptions shared = two_nodes_of_two();
  shared.disks = sim::DiskScope::kShared;
  const auto run = run_ranks(shared, program);
  const Finding* finding = finding_of(run.report, "checkpoint-whole");
  ASSERT_NE(finding, nullptr) << run;
  EXPECT_THAT(ranks_of(*finding), ElementsAre(0, 2));
}

}  // namespace lockstep::testing
