// Ranks as real processes inside a test: forked, waited for, their assertions counted.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::testing {

constexpr int kChildFailed = 1;
constexpr int kChildThrew = 3;

/// Runs `program(rank)` in its own process for each rank.
/// Requires: no other thread runs here.
/// Returns: the exit status of each, negative for the signal that ended it. A failed assertion in a
///     child is printed there and makes its status kChildFailed.
inline std::vector<int> run_processes(int n_ranks, const std::function<void(int)>& program) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < n_ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      int status = 0;
      try {
        program(rank);
        if (::testing::Test::HasFailure()) status = kChildFailed;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        status = kChildThrew;
      }
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return statuses;
}

}  // namespace lockstep::testing
