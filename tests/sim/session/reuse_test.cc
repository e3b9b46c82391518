// Runs of one session, one after another: the later ones find memory warm, wherever the earlier ones
// have been moved.
#include <cstdint>
#include <malloc.h>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/rank_context.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::sim {
namespace {

/// Where a tensor of rank 0 was, and what its run had asked of the system by then.
struct Place {
  std::uintptr_t address = 0;
  std::int64_t n_blocks = 0;  // Of the pool's.
};

class ReuseTest : public ::testing::Test {
 protected:
  Place run(std::size_t address_shift) {
    SessionOptions options;
    options.n_ranks = 2;
    options.address_shift = address_shift;
    Place place;
    const auto ran = session_.run(options, [&](RankContext& context) {
      Runtime& runtime = context.runtime();
      // A large one has a block of the system's to itself.
      const Tensor large = Tensor::zeros(runtime, {1 << 16}, DType::kF32);
      const Tensor small = Tensor::zeros(runtime, {4}, DType::kF32);
      if (context.rank() > 0) return;
      place.address = reinterpret_cast<std::uintptr_t>(small.span<float>().data());
      place.n_blocks = runtime.pool().system_allocations();
    });
    EXPECT_TRUE(ran.ok());
    return place;
  }

  Session session_;
};

constexpr std::size_t kElsewhere = 4096 + 576;

TEST_F(ReuseTest, ASecondRunIsWhereTheFirstWasAndAsksForNothing) {
  const Place first = run(0);
  const Place second = run(0);

  EXPECT_EQ(second.address, first.address);
  EXPECT_EQ(second.n_blocks, first.n_blocks);
}

TEST_F(ReuseTest, AMovedRunIsSomewhereElse) {
  const Place plain = run(0);
  const Place moved = run(kElsewhere);

  EXPECT_NE(moved.address, plain.address);
  EXPECT_EQ((moved.address - plain.address) % 64, 0U);
}

TEST_F(ReuseTest, MovedRunsDoNotGrowASession) {
  const Place plain = run(0);
  const Place moved = run(kElsewhere);
  for (int n = 0; n < 20; ++n) {
    EXPECT_EQ(run(kElsewhere).n_blocks, moved.n_blocks);
    const Place again = run(0);
    EXPECT_EQ(again.n_blocks, plain.n_blocks);
    EXPECT_EQ(again.address, plain.address);
  }
}

TEST_F(ReuseTest, WhatAMovedRunKeepsOutlivesIt) {
  SessionOptions options;
  options.address_shift = kElsewhere;
  Tensor kept;
  const auto ran = session_.run(options, [&](RankContext& context) {
    kept = Tensor::full(context.runtime(), {4}, DType::kF32, 0.5);
  });
  run(0);
  run(kElsewhere);

  EXPECT_FALSE(ran.ok() && ran.value().report.ok());
  kept = Tensor();
}

// glibc's own count; LeakSanitizer sees to it where it has replaced glibc's allocator.
std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(ReuseTest, WhatRunsHaveKeptDoesNotAddUpOnceItIsGone) {
  SessionOptions options;
  options.n_ranks = 2;
  const auto keep_for_a_while = [&] {
    Tensor kept;
    const auto ran = session_.run(options, [&](RankContext& context) {
      if (context.rank() == 0) kept = Tensor::zeros(context.runtime(), {1 << 16}, DType::kF32);
    });
    EXPECT_FALSE(ran.ok() && ran.value().report.ok());
    EXPECT_EQ(kept.at(1), 0.0);
  };
  keep_for_a_while();
  keep_for_a_while();
  const std::size_t before = bytes_in_use();
  for (int n = 0; n < 20; ++n) keep_for_a_while();
  EXPECT_LT(bytes_in_use(), before + (std::size_t{1} << 18U));
}

}  // namespace
}  // namespace lockstep::sim
