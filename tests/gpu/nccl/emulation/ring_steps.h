// Reductions as NCCL's ring does them, step by step: what every rank receives, adds and passes on.
//
// Written from the schedule of steps, not from the formula that src/comm uses, so that each can be
// wrong by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/gpu/nccl/api.h"

namespace lockstep::testing {

/// One rank's side of a reduction.
struct RingRank {
  const void* send = nullptr;
  void* recv = nullptr;
  nccl::RedOp op = nccl::RedOp::kSum;
  double factor = 1.0;  ///< Of a premultiplied sum.
  bool premultiplies = false;
};

/// All ranks of a reduction, by rank.
struct RingJob {
  std::vector<RingRank> ranks;
  std::size_t count = 0;  ///< Of a rank's part for reduce_scatter.
  nccl::Type type = nccl::Type::kF32;
  std::vector<std::int32_t> ring;  ///< Ranks in the order of sending, from rank 0.
};

void ring_all_reduce(const RingJob& job);
void ring_reduce(const RingJob& job, std::int32_t root);
void ring_reduce_scatter(const RingJob& job);

std::size_t size_of(nccl::Type type);

}  // namespace lockstep::testing
