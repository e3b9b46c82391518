// Runs one hook on several ranks and returns what each of them got.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hooks/buckets.h"
#include "tests/support/mini_world.h"

namespace lockstep::testing {

using MakeHook = std::function<std::unique_ptr<CommHook>(MiniRank&)>;
using Bytes = std::vector<std::uint8_t>;

inline Bytes bytes_of(const Tensor& tensor) {
  const auto* const first = static_cast<const std::uint8_t*>(tensor.raw());
  return {first, first + tensor.n_bytes()};
}

struct ReplicaRun {
  std::vector<std::vector<double>> values;  ///< By rank.
  std::vector<Bytes> bytes;                 ///< By rank.
  MiniResult mini;

  bool replicas_equal() const {
    for (const Bytes& one : bytes) {
      if (one != bytes[0]) return false;
    }
    return true;
  }
};

/// One step of one bucket with one parameter; `gradients` by rank.
inline ReplicaRun run_replicas(const std::vector<std::vector<double>>& gradients,
                               const MakeHook& make_hook,
                               DType dtype = DType::kF32) {
  ReplicaRun run;
  run.values.resize(gradients.size());
  run.bytes.resize(gradients.size());
  const auto n_ranks = static_cast<std::int32_t>(gradients.size());
  run.mini = run_mini_world({.n_ranks = n_ranks}, [&](MiniRank& rank) {
    const auto r = static_cast<std::size_t>(rank.rank);
    const auto hook = make_hook(rank);
    const Tensor result = run_and_wait(*hook, make_bucket(rank.runtime, gradients[r], dtype));
    run.values[r] = values_of(result);
    run.bytes[r] = bytes_of(result);
  });
  return run;
}

/// Runs `program` on all ranks, all of which must finish.
inline void run_to_the_end(std::int32_t n_ranks, const MiniWorld::Program& program) {
  const MiniResult run = run_mini_world({.n_ranks = n_ranks}, program);
  for (std::size_t r = 0; r < run.exceptions.size(); ++r) EXPECT_EQ(run.error(r), "");
}

/// A maker of hooks that need a group and nothing else.
template <typename Hook, typename... Args>
MakeHook plain(Args... args) {
  return [=](MiniRank& rank) { return std::make_unique<Hook>(rank.group, args...); };
}

}  // namespace lockstep::testing
