#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/formats/jsonl.h"
#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep::testing {

namespace {

double summed_over_ranks(RankContext& context, double value) {
  context.world().all_reduce(Memory::of(std::span<double>(&value, 1))).wait_or_throw();
  return value;
}

}  // namespace

TEST(RunRanksTest, ReturnsOneResultPerRank) {
  const auto run = run_ranks({.ranks = 4}, [](RankContext& context) {
    return summed_over_ranks(context, context.rank() + 1.0);
  });

  ASSERT_TRUE(run.ok()) << render_text(run.report, false);
  EXPECT_EQ(run.results, (std::vector<std::optional<double>>{10.0, 10.0, 10.0, 10.0}));
}

TEST(RunRanksTest, RethrowsAForeignExceptionOfTheLowestRankAtTheSameTime) {
  const auto program = [](RankContext& context) {
    if (context.rank() >= 1) throw std::domain_error("rank " + std::to_string(context.rank()));
    summed_over_ranks(context, 1.0);
  };

  try {
    run_ranks({.ranks = 3}, program);
    FAIL() << "the exception was swallowed";
  } catch (const std::domain_error& error) {
    EXPECT_STREQ(error.what(), "rank 1");
  }
}

TEST(RunRanksTest, LetsExceptionsThatAreNotStdExceptionsThrough) {
  struct Foreign {
    int value;
  };

  EXPECT_THROW(run_ranks({.ranks = 2},
                         [](RankContext& context) {
                           if (context.rank() == 1) throw Foreign{7};
                         }),
               Foreign);
}

TEST(RunRanksTest, ProvesAHangAndNamesTheMissingRank) {
  const auto run = run_ranks({.ranks = 3}, [](RankContext& context) {
    if (context.rank() != 2) summed_over_ranks(context, 1.0);
  });

  EXPECT_EQ(name_of(run.report.outcome), "hang");
  EXPECT_NE(run.report.wait_for_graph.find("rank 2"), std::string::npos)
      << run.report.wait_for_graph;
  EXPECT_NE(run.report.wait_for_graph.find("run_ranks_test.cc"), std::string::npos)
      << run.report.wait_for_graph;
}

TEST(RunRanksTest, ReportsAMismatchAsAFindingNotAnException) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data(context.rank() == 0 ? 4 : 5, 1.0F);
    context.world().all_reduce(Memory::of(std::span(data))).wait_or_throw();
  });

  EXPECT_EQ(name_of(run.report.outcome), "findings");
  ASSERT_EQ(run.report.n_findings(), 1U) << render_text(run.report, false);
}

TEST(RunRanksTest, OffersFaultsRestartsLinksAndTime) {
  RunOptions options{.ranks = 2};
  options.fidelity = sim::Fidelity::kMessage;
  options.net.intra.latency_ns = 500;
  options.faults = {
      {.kind = sim::FaultKind::kException, .rank = 1, .at = CollectiveOp::kAllReduce}};
  const auto program = [](RankContext& context) {
    summed_over_ranks(context, 1.0);
    return context.host().now().ns;
  };
  const auto failed = run_ranks(options, program);
  EXPECT_FALSE(failed.ok());
  EXPECT_NE(failed.report.error.find("injected fault"), std::string::npos) << failed.report.error;

  options.agent = sim::AgentOptions{.max_restarts = 1};
  const auto restarted = run_ranks(options, program);
  EXPECT_TRUE(restarted.ok()) << render_text(restarted.report, false);
  EXPECT_EQ(restarted.report.attempts.size(), 1U);
  EXPECT_EQ(restarted.results[0], 1000);  // There and back.

  options.record = false;
  EXPECT_THROW(run_ranks(options, program), std::invalid_argument);
}

// Numbers of parameters are compared without a list of all ranks on each of them.
TEST(RunRanksTest, ADifferentModelIsSeenAmongManyRanks) {
  const auto program = [](std::int32_t odd) {
    return [odd](RankContext& context) {
      Generator init(1);
      nn::Sequential model(context.runtime());
      model.append<nn::Linear>(2, 2, init);
      if (context.rank() == odd) model.append<nn::Linear>(2, 2, init);
      const DistributedDataParallel ddp(model, context.world());
    };
  };
  const RunOptions options{.ranks = 4200, .laws = {"progress"}};
  EXPECT_TRUE(run_ranks(options, program(-1)).ok());
  try {
    run_ranks(options, program(4100));
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("while others have 2 to 4 params"), std::string::npos)
        << error.what();
  }
}

TEST(RunRanksTest, SuggestsTheWordThatWasMeant) {
  try {
    run_ranks({.strategy = "run_to_block"}, [](RankContext&) {});
    FAIL() << "an unknown strategy was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "unknown strategy 'run_to_block'; did you mean 'run-to-block'?");
  }
  EXPECT_THROW(run_ranks({.ranks = 0}, [](RankContext&) {}), std::invalid_argument);
  EXPECT_THROW(run_ranks({.laws = {"replica-equal"}}, [](RankContext&) {}), std::invalid_argument);
  EXPECT_THROW(run_ranks({.replay = "?"}, [](RankContext&) {}), std::invalid_argument);
}

TEST(RunRanksTest, RefusesAScheduleOfAnotherProgram) {
  const auto chat = [](RankContext& context) { summed_over_ranks(context, 1.0); };
  const std::string token = "@0-1=3";  // Instead of rank 0's second operation, rank 3.

  EXPECT_EQ(run_ranks({.ranks = 4, .replay = token}, chat).replay_token(), token);
  EXPECT_THROW(run_ranks({.ranks = 2, .replay = token}, chat), std::invalid_argument);
}

TEST(RunRanksTest, ExactModeNamesTheOperationThatRounds) {
  const auto program = [](RankContext& context) {
    const Tensor third = Tensor::full(context.runtime(), {1}, DType::kF64, 0.1);
    context.runtime().kernels().mul(third, third, third);
  };

  try {
    run_ranks({.ranks = 1, .exact = true}, program);
    FAIL() << "0.1 * 0.1 rounds";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("'mul'"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(run_ranks({.ranks = 1}, program));
}

// A reduction belongs to no rank's stack; the error still belongs to a rank.
TEST(RunRanksTest, ExactModeNamesAReductionThatRounds) {
  const auto program = [](double large) {
    return [large](RankContext& context) {
      summed_over_ranks(context, context.rank() == 0 ? large : 1.0);
    };
  };
  EXPECT_TRUE(run_ranks({.ranks = 2, .exact = true}, program(0x1p52)).ok());
  try {
    run_ranks({.ranks = 2, .exact = true}, program(0x1p60));
    FAIL() << "nothing rounded";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("operation 'reduce' rounded"), std::string::npos)
        << error.what();
  }
}

TEST(RunRanksTest, AWatchdogEndsACallThatOneRankIsLateFor) {
  const auto program = [](RankContext& context) {
    if (context.rank() == 1) context.host().sleep(Duration{10'000'000'000});
    double value = 1.0;
    return context.world().all_reduce(Memory::of(std::span<double>(&value, 1))).wait();
  };
  const auto watched =
      run_ranks({.ranks = 2, .watchdog = std::chrono::seconds(1), .rethrow = false}, program);
  EXPECT_EQ(watched.results[0], CommStatus::kTimedOut);

  const auto patient = run_ranks({.ranks = 2}, program);
  EXPECT_EQ(patient.results[0], CommStatus::kOk);
}

TEST(RunRanksTest, ARestartMayHaveALargerWorld) {
  RunOptions options{.ranks = 2};
  options.faults = {
      {.kind = sim::FaultKind::kException, .rank = 1, .at = CollectiveOp::kAllReduce}};
  options.agent = sim::AgentOptions{.max_restarts = 1, .n_ranks_later = {4}};
  const auto run =
      run_ranks(options, [](RankContext& context) { return summed_over_ranks(context, 1.0); });

  EXPECT_EQ(run.results, (std::vector<std::optional<double>>{4.0, 4.0, 4.0, 4.0}));
}

TEST(RunRanksTest, AKilledRankRecordsNothingMore) {
  const auto n_recorded = [](bool goes_on) {
    RunOptions options{.ranks = 2, .rethrow = false};
    options.faults = {{.kind = sim::FaultKind::kSigkill, .rank = 1, .at = EventKind::kDecision}};
    return run_ranks(options,
                     [=](RankContext& context) {
                       context.annotate().decision("stop", 1);
                       for (int i = 0; goes_on && i < 5; ++i) context.annotate().log("still here");
                       if (context.rank() == 0) return;
                       summed_over_ranks(context, 1.0);
                     })
        .report.n_events;
  };
  // Rank 0 alone leaves its five lines.
  EXPECT_EQ(n_recorded(true), n_recorded(false) + 5);
}

/// What a launcher does for a process.
void become_rank(int rank, const std::string& folder) {
  const std::string self = std::to_string(rank);
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", self},
      {"LOCAL_RANK", self},
      {"WORLD_SIZE", "2"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"LOCKSTEP_BACKEND", "gloo"},
      {"LOCKSTEP_RENDEZVOUS", folder + "/rendezvous"},
  };
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);  // NOLINT
}

TEST(RunRanksAsProcessesTest, AnExceptionOfTheProgramReachesItsOwnCaller) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    become_rank(rank, folder.path());
    const auto program = [](RankContext& context) {
      if (context.rank() == 1) throw std::logic_error("on purpose");
    };
    if (rank == 1) {
      EXPECT_THROW(run_ranks({.ranks = 2}, program), std::logic_error);
    } else {
      EXPECT_FALSE(run_ranks({.ranks = 2}, program).ok());
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(RunRanksAsProcessesTest, ExactModeRefusesAnOperationThatRounds) {
  for (const bool exact : {true, false}) {
    const TempFolder folder;
    const std::vector<int> statuses = run_processes(2, [&](int rank) {
      become_rank(rank, folder.path());
      const auto program = [](RankContext& context) {
        const Tensor tenth = Tensor::full(context.runtime(), {1}, DType::kF64, 0.1);
        context.runtime().kernels().mul(tenth, tenth, tenth);
      };
      const RunOptions options{.ranks = 2, .exact = exact};
      if (exact) {
        EXPECT_THROW(run_ranks(options, program), std::runtime_error);
      } else {
        EXPECT_NO_THROW(run_ranks(options, program));
      }
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0})) << exact;
  }
}

TEST(RunRanksAsProcessesTest, ANewGroupIsRecordedAsInTheSimulator) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    become_rank(rank, folder.path());
    const auto run =
        run_ranks({.ranks = 2, .trace = folder.path() + "/trace"}, [](RankContext& context) {
          const std::int32_t both[] = {1, 0};
          const auto group = context.world().split(both, CallSite::here());
          group->barrier().wait_or_throw();
        });
    EXPECT_TRUE(run.ok()) << run;
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  const Result<LoadedTrace> loaded = read_jsonl(folder.path() + "/trace");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  for (const std::int32_t rank : {0, 1}) {
    std::vector<std::int32_t> members;
    for (const Event& event : loaded.value().trace->events(Rank{rank})) {
      const auto* group = std::get_if<GroupEvent>(&event.body);
      if (group != nullptr) members.assign(group->members.begin(), group->members.end());
    }
    EXPECT_EQ(members, (std::vector<std::int32_t>{1, 0}));
  }
}

TEST(RunRanksTest, AWorldInsideARankIsRefused) {
  EXPECT_THROW(
      run_ranks({.ranks = 2}, [](RankContext&) { run_ranks({.ranks = 2}, [](RankContext&) {}); }),
      ContractViolation);
}

TEST(SimulatorTest, RunsManyWorldsOneAfterTheOther) {
  Simulator simulator;
  for (std::int32_t ranks = 1; ranks <= 16; ++ranks) {
    const auto run = simulator.run(
        {.ranks = ranks}, [](RankContext& context) { return summed_over_ranks(context, 1.0); });
    ASSERT_TRUE(run.ok());
    for (const auto& result : run.results) EXPECT_EQ(result, ranks);
  }
}

}  // namespace lockstep::testing
