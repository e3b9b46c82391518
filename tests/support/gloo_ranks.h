// Worlds of processes connected by Gloo, for tests.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/real/gloo/gloo_group.h"

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// Connects as `options` say, in this process, and runs `program` with the group.
inline void with_gloo_group(const gloo::GlooOptions& options,
                            const std::function<void(ProcessGroup&)>& program) {
  TestRuntime runtime;
  Result<std::unique_ptr<ProcessGroup>> group = gloo::connect(options, runtime.runtime);
  ASSERT_TRUE(group.ok()) << group.error().text();
  program(*group.value());
}

/// Calls `program` once on every rank, each in its own process, connected as `options` say but for
/// rank and folder. Assertions of all ranks count.
inline void run_gloo_world(gloo::GlooOptions options,
                           const std::function<void(ProcessGroup&)>& program) {
  const TempFolder folder;
  options.rendezvous = folder.path();
  const std::vector<int> statuses = run_processes(options.size, [&](int rank) {
    options.rank = rank;
    with_gloo_group(options, program);
  });
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "of rank " << rank;
  }
}

inline void run_gloo_ranks(std::int32_t n_ranks,
                           const std::function<void(ProcessGroup&)>& program,
                           std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  run_gloo_world({.size = n_ranks, .rendezvous = {}, .timeout = timeout}, program);
}

}  // namespace lockstep::testing
