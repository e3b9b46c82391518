// What leaves its rank, outlives it, or reaches into another one.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

CommStatus meet(RankContext& rank) { return rank.world().barrier().wait(); }

int keeps_a_tensor() {
  std::optional<Tensor> kept;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() == 1) kept = Tensor::full(rank.runtime(), {2, 3}, DType::kF32, 1.0);
  });
  std::cerr << kept->at(5) << '\n';
  return 0;
}

int keeps_a_tensor_of_a_simulator() {
  std::vector<Tensor> kept;
  Simulator simulator;
  simulator.run({.ranks = 3}, [&](RankContext& rank) {
    kept.push_back(Tensor::full(rank.runtime(), {1}, DType::kF32, 1.0));
  });
  simulator.run({.ranks = 3}, [&](RankContext& rank) {
    (void)rank.world().all_reduce(Memory::of(kept[0])).wait();
  });
  return 0;
}

int keeps_a_module() {
  std::unique_ptr<nn::Linear> model;
  run_ranks({.ranks = 1},
            [&](RankContext& rank) { model = std::make_unique<nn::Linear>(rank.runtime(), 2, 1); });
  std::cerr << model->weight().data().at(0) << '\n';
  return 0;
}

int keeps_an_optimizer() {
  std::unique_ptr<optim::Sgd> optimizer;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    if (rank.rank() == 0) {
      optimizer = std::make_unique<optim::Sgd>(model.parameters(), optim::SgdOptions{.lr = 0.1});
    }
  });
  optimizer->step();
  return 0;
}

int keeps_a_work() {
  Work kept;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    std::vector<float> data(2, 1.0F);
    Work work = rank.world().all_reduce(Memory::of(std::span(data)));
    (void)work.wait();
    if (rank.rank() == 1) kept = work;
  });
  return kept.wait() == CommStatus::kOk ? 0 : 1;
}

int returns_a_tensor_in_a_struct() {
  struct Mine {
    int step = 0;
    Tensor weights;
  };

  const auto run = run_ranks({.ranks = 2}, [](RankContext& rank) {
    return Mine{1, Tensor::full(rank.runtime(), {4}, DType::kF32, 1.0)};
  });
  std::cerr << run.results[1]->weights.at(3) << '\n';
  return 0;
}

int keeps_a_context() {
  std::optional<RankContext> kept;
  run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() == 1) kept.emplace(rank);
  });
  return kept->world().size();
}

int keeps_a_context_and_asks_its_runtime() {
  std::optional<RankContext> kept;
  run_ranks({.ranks = 2}, [&](RankContext& rank) { kept.emplace(rank); });
  std::cerr << Tensor::zeros(kept->runtime(), {2}, DType::kF32).at(0) << '\n';
  return 0;
}

int uses_the_context_of_a_rank_that_ended() {
  std::optional<RankContext> of_rank_0;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() == 0) {
      of_rank_0.emplace(rank);
      return;
    }
    rank.host().sleep(Duration{1});
    (void)of_rank_0->world().barrier().wait();
  }));
}

int uses_the_context_of_another_rank() {
  std::optional<RankContext> of_rank_0;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() == 0) of_rank_0.emplace(rank);
    (void)meet(rank);
    if (rank.rank() == 1) (void)of_rank_0->world().barrier().wait();
    (void)meet(rank);
  }));
}

int adds_the_tensor_of_another_rank() {
  const Variable* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    const Variable own(Tensor::full(rank.runtime(), {2}, DType::kF32, 1.0), true);
    if (rank.rank() == 0) of_rank_0 = &own;
    (void)meet(rank);
    if (rank.rank() == 1) sum(add(own, *of_rank_0)).backward();
    (void)meet(rank);
  }));
}

int forwards_through_the_module_of_another_rank() {
  nn::Linear* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    nn::Linear own(rank.runtime(), 2, 1);
    if (rank.rank() == 0) of_rank_0 = &own;
    (void)meet(rank);
    const Variable x(Tensor::full(rank.runtime(), {4, 2}, DType::kF32, 1.0));
    if (rank.rank() == 1) (void)(*of_rank_0)(x);
    (void)meet(rank);
  }));
}

int wraps_the_module_of_another_rank() {
  nn::Linear* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    nn::Linear own(rank.runtime(), 2, 1);
    if (rank.rank() == 0) of_rank_0 = &own;
    (void)meet(rank);
    DistributedDataParallel ddp(*of_rank_0, rank.world());
    (void)meet(rank);
  }));
}

int steps_the_optimizer_of_another_rank() {
  optim::Sgd* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    nn::Linear own(rank.runtime(), 2, 1);
    optim::Sgd optimizer(own.parameters(), {.lr = 0.1});
    if (rank.rank() == 0) of_rank_0 = &optimizer;
    (void)meet(rank);
    if (rank.rank() == 1) of_rank_0->step();
    (void)meet(rank);
  }));
}

int backwards_on_another_rank() {
  const Variable* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    const Variable own(Tensor::full(rank.runtime(), {2}, DType::kF32, 1.0), true);
    const Variable loss = sum(own);
    if (rank.rank() == 0) of_rank_0 = &loss;
    (void)meet(rank);
    if (rank.rank() == 1) of_rank_0->backward();
    (void)meet(rank);
  }));
}

int exits() {
  run_ranks({.ranks = 2}, [](RankContext& rank) {
    if (rank.rank() == 1) std::exit(7);
  });
  return 0;
}

[[gnu::noinline]] int frames(int depth) {
  volatile char frame[560];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : frames(depth - 1) + frame[0];
}

int recurses() {
  run_ranks({.ranks = 3}, [](RankContext& rank) {
    volatile const int used = rank.rank() == 1 ? frames(150) : 0;
    static_cast<void>(used);
  });
  return 0;
}

int keeps_a_large_array() {
  run_ranks({.ranks = 2}, [](RankContext& rank) {
    if (rank.rank() == 0) return;
    volatile double table[40'000];
    for (volatile double& entry : table) entry = 1.0;
  });
  return 0;
}

int recurses_among_many() {
  run_ranks({.ranks = 20'000, .record = false}, [](RankContext& rank) {
    volatile const int used = rank.rank() == 19'999 ? frames(150) : 0;
    static_cast<void>(used);
    rank.host().point({});
  });
  return 0;
}

int starts_a_thread_for_a_collective() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) {
    std::exception_ptr thrown;
    std::thread([&] {
      try {
        (void)meet(rank);
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
  }));
}

int polls_for_ever() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) {
    float value = 1.0F;
    if (rank.rank() == 1) return;
    const Work work = rank.world().all_reduce(Memory::of(std::span(&value, 1)));
    while (!work.is_completed()) {
    }
  }));
}

int simulates_inside_a_rank() {
  return tell(run_ranks({.ranks = 2}, [](RankContext&) { run_ranks({.ranks = 2}, [](auto&) {}); }));
}

int uses_its_own_simulator() {
  Simulator simulator;
  simulator.run({.ranks = 2},
                [&](RankContext&) { simulator.run({.ranks = 2}, [](RankContext&) {}); });
  return 0;
}

int throws_something_odd() {
  return tell(run_ranks({.ranks = 2, .rethrow = false}, [](RankContext& rank) {
    if (rank.rank() == 1) throw 42;
  }));
}

int swallows_everything() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) {
    if (rank.rank() == 0) return;
    while (true) {
      try {
        (void)meet(rank);
      } catch (...) {
      }
    }
  }));
}

int runs_out_of_memory() {
  return tell(run_ranks({.ranks = 2, .rethrow = false}, [](RankContext& rank) {
    (void)Tensor::zeros(rank.runtime(), {std::int64_t{1} << 48}, DType::kF32);
  }));
}

constexpr Misuse kRankMisuses[] = {
    {"KeepsATensorBeyondTheRun",
     "program of rank 1 has ended, but 1 of its tensors or works outlive it",
     keeps_a_tensor},
    {"KeepsATensorOfASimulator",
     "program of rank 0 has ended, but 1 of its tensors",
     keeps_a_tensor_of_a_simulator},
    {"KeepsAModuleBeyondTheRun",
     "program of rank 0 has ended, but 2 of its tensors",
     keeps_a_module},
    {"KeepsAnOptimizerBeyondTheRun",
     "program of rank 0 has ended, but 2 of its tensors",
     keeps_an_optimizer},
    {"KeepsAWorkBeyondTheRun",
     "program of rank 1 has ended, but 1 of its tensors or works",
     keeps_a_work},
    {"ReturnsATensorInAStruct",
     "program of rank 0 has ended, but 1 of its tensors",
     returns_a_tensor_in_a_struct},
    {"KeepsAContextBeyondTheRun",
     "the context of rank 1 is used after its function returned",
     keeps_a_context},
    {"AsksAnOldContextForItsRuntime",
     "the context of rank 1 is used after its function returned",
     keeps_a_context_and_asks_its_runtime},
    {"UsesTheContextOfARankThatEnded",
     "the context of rank 0 is used after its function returned",
     uses_the_context_of_a_rank_that_ended},
    {"UsesTheContextOfAnotherRank", "rank 0 is used by rank 1", uses_the_context_of_another_rank},
    {"AddsTheTensorOfAnotherRank",
     "an operation mixes f32 .2. with a tensor of another rank",
     adds_the_tensor_of_another_rank},
    {"ForwardsThroughTheModuleOfAnotherRank",
     "an operation mixes f32 .1.* with a tensor of another rank",
     forwards_through_the_module_of_another_rank},
    {"WrapsTheModuleOfAnotherRank",
     "parameter 'weight' belongs to another rank than the group",
     wraps_the_module_of_another_rank},
    {"StepsTheOptimizerOfAnotherRank",
     "rank 0 is used by rank 1",
     steps_the_optimizer_of_another_rank},
    {"BackwardsOnAnotherRank", "rank 0 is used by rank 1", backwards_on_another_rank},
    {"CallsExit", "a rank called exit", exits},
    {"RecursesDeeply",
     "rank 1 overflowed its stack of 65536 bytes: .*raise RunOptions::stack_bytes",
     recurses},
    {"KeepsALargeArrayOnTheStack",
     "rank 1 overflowed its stack of 65536 bytes",
     keeps_a_large_array},
    {"RecursesAmongManyRanks",
     "rank 19999 overflowed its stack of 65536 bytes",
     recurses_among_many},
    {"LetsAThreadCallACollective",
     "rank [01] is used on a thread or stack other than its own",
     starts_a_thread_for_a_collective},
    {"PollsForEver", "rank 0.*all_reduce", polls_for_ever},
    {"SimulatesInsideARank", "a simulation was started inside a rank", simulates_inside_a_rank},
    {"UsesItsOwnSimulator", "a simulation was started inside a rank", uses_its_own_simulator},
    {"ThrowsSomethingOdd",
     "error: rank 1: an exception that is not a std::exception",
     throws_something_odd},
    {"SwallowsEverything", "rank 1", swallows_everything},
    {"AsksForMoreMemoryThanThereIs",
     "rank 0: .*a block of 1125899906842688 bytes is larger than any machine's memory",
     runs_out_of_memory},
};

}  // namespace

std::span<const Misuse> with_ranks() { return kRankMisuses; }

}  // namespace lockstep::misuse
