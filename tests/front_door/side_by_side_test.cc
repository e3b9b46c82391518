// A Simulator serves one thread at a time; several of them share nothing. Under ThreadSanitizer
// (./dev sanitize thread) whatever they did share shows here.
#include <array>
#include <cstddef>
#include <cstdint>
#include <lockstep/lockstep.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <lockstep/report.h>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::array<std::string, 3>;

/// What a training on 4 ranks leaves, twice with one Simulator: both digests, and the report.
Words train(Simulator& simulator, std::uint64_t seed) {
  const auto run = simulator.run({.ranks = 4}, [&](RankContext& rank) {
    Generator weights(seed);
    nn::Linear model(rank.runtime(), 6, 1, weights);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      const double value = rank.rank() + step;
      optimizer.zero_grad();
      mse_loss(ddp(Variable(Tensor::full(rank.runtime(), {2, 6}, DType::kF32, value))),
               Tensor::full(rank.runtime(), {2, 1}, DType::kF32, 1.0))
          .backward();
      optimizer.step();
    }
  });
  return {std::to_string(run.report.trace_digest),
          std::to_string(run.report.result_digest),
          render_text(run.report, /*color=*/false)};
}

TEST(SideBySideTest, SimulatorsOnThreadsOfTheirOwnShareNothing) {
  constexpr std::size_t kThreads = 4;
  std::array<Words, kThreads> alone;
  for (std::size_t i = 0; i < kThreads; ++i) {
    Simulator simulator;
    alone[i] = train(simulator, i);
  }

  std::array<std::vector<Words>, kThreads> together;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&together, i] {
      Simulator simulator;
      for (int round = 0; round < 3; ++round) together[i].push_back(train(simulator, i));
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (std::size_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(together[i], std::vector<Words>(3, alone[i])) << "of thread " << i;
  }
  EXPECT_NE(alone[0], alone[1]);
}

TEST(SideBySideTest, ASimulatorMovesFromThreadToThread) {
  Simulator simulator;
  const Words first = train(simulator, 0);
  std::array<Words, 2> others;
  for (Words& other : others) {
    std::thread([&] { other = train(simulator, 0); }).join();
  }
  EXPECT_EQ(others[0], first);
  EXPECT_EQ(others[1], first);
}

}  // namespace
}  // namespace lockstep
