// Worlds of threads connected by emulated NCCL on the CPU, for tests. Not a GPU.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/gpu/nccl/nccl_group.h"

#include "tests/gpu/nccl/emulation/emulation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// Runs `program(rank)` on its own thread for each rank. An exception fails the test.
inline void run_threads(std::int32_t n_ranks, const std::function<void(std::int32_t)>& program) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(n_ranks));
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    threads.emplace_back([&program, rank] {
      try {
        program(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct EmulatedWorld {
  std::int32_t n_ranks = 2;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  bool check_signatures = true;
};

/// Calls `program` once on every rank, with its world group over `emulation`.
inline void run_emulated_ranks(const Emulation& emulation,
                               const EmulatedWorld& world,
                               const std::function<void(ProcessGroup&)>& program) {
  const TempFolder folder;
  run_threads(world.n_ranks, [&](std::int32_t rank) {
    TestRuntime runtime;
    Result<std::unique_ptr<ProcessGroup>> group =
        nccl::connect(emulation.gpu(rank),
                      {.rank = rank,
                       .size = world.n_ranks,
                       .rendezvous = folder.path(),
                       .timeout = world.timeout,
                       .check_signatures = world.check_signatures},
                      runtime.runtime);
    ASSERT_TRUE(group.ok()) << group.error().text();
    program(*group.value());
  });
}

}  // namespace lockstep::testing
