#include "lockstep/dist/reduction_order.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRingSegmentBytes = 1 << 20;
constexpr std::int64_t kPairwiseBlock = 1024;  // Elements a rank: temporaries stay in cache.

// What every order works on; a slice of it is one call of Kernels::reduce.
struct Operands {
  std::span<void* const> outputs;
  std::span<const void* const> inputs;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

void* advance(void* data, std::int64_t bytes) { return static_cast<std::byte*>(data) + bytes; }

const void* advance(const void* data, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

// Elements one rank owns in Gloo's ring.
std::int64_t ring_chunk(std::int64_t count, std::int64_t elem_bytes, std::int64_t n_ranks) {
  const std::int64_t total_bytes = count * elem_bytes;
  const std::int64_t n_segments =
      round_up(std::max(ceil_div(total_bytes, kRingSegmentBytes), 2 * n_ranks), n_ranks);
  const std::int64_t segment_bytes = round_up(ceil_div(total_bytes, n_segments), elem_bytes);
  return n_segments / n_ranks * segment_bytes / elem_bytes;
}

void reduce_ring(Kernels& kernels, const Operands& job) {
  const std::size_t n = job.inputs.size();
  const std::int64_t elem_bytes = size_of(job.dtype);
  const std::int64_t chunk = ring_chunk(job.count, elem_bytes, static_cast<std::int64_t>(n));
  std::vector<const void*> inputs(n);
  std::vector<void*> outputs(job.outputs.size());
  std::int64_t begin = 0;
  for (std::size_t c = 0; c < n && begin < job.count; ++c, begin += chunk) {
    // The chunk starts at rank c-1 and travels down to rank c: the innermost pair first.
    for (std::size_t k = 0; k < n; ++k) {
      inputs[k] = advance(job.inputs[(c + n - 1 - k) % n], begin * elem_bytes);
    }
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      outputs[r] = advance(job.outputs[r], begin * elem_bytes);
    }
    kernels.reduce(outputs, inputs, std::min(chunk, job.count - begin), job.dtype, job.op);
  }
}

// One block, level by level; `level` holds the operands of the current level.
void reduce_pairs(Kernels& kernels,
                  const Operands& block,
                  std::vector<const void*>& level,
                  std::byte* scratch) {
  const std::int64_t bytes = block.count * size_of(block.dtype);
  while (level.size() > 2) {
    const std::size_t n_pairs = level.size() / 2;
    for (std::size_t i = 0; i < n_pairs; ++i) {
      void* sum = scratch + static_cast<std::int64_t>(i) * bytes;
      kernels.reduce(std::span<void* const>(&sum, 1),
                     std::span(level).subspan(2 * i, 2),
                     block.count,
                     block.dtype,
                     block.op);
      level[i] = sum;
    }
    const bool odd = level.size() % 2 == 1;
    if (odd) level[n_pairs] = level.back();
    level.resize(n_pairs + (odd ? 1 : 0));
  }
  kernels.reduce(block.outputs, level, block.count, block.dtype, block.op);
}

void reduce_pairwise(Kernels& kernels, const Operands& job) {
  LOCKSTEP_CHECK(job.op != ReduceOp::kAvg, "pairwise order has no average: sum, then divide");
  const std::size_t n = job.inputs.size();
  const std::int64_t elem_bytes = size_of(job.dtype);
  const std::int64_t block = std::min(kPairwiseBlock, job.count);
  std::vector<std::byte> scratch(static_cast<std::size_t>(block * elem_bytes) * (n / 2 + 1));
  std::vector<const void*> level;
  std::vector<void*> outputs(job.outputs.size());
  for (std::int64_t begin = 0; begin < job.count; begin += block) {
    level.resize(n);
    for (std::size_t r = 0; r < n; ++r) level[r] = advance(job.inputs[r], begin * elem_bytes);
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      outputs[r] = advance(job.outputs[r], begin * elem_bytes);
    }
    const Operands part{outputs, {}, std::min(block, job.count - begin), job.dtype, job.op};
    reduce_pairs(kernels, part, level, scratch.data());
  }
}

}  // namespace

std::string_view name_of(ReductionOrder order) {
  switch (order) {
    case ReductionOrder::kRank:
      return "rank";
    case ReductionOrder::kGlooRing:
      return "gloo-ring";
    case ReductionOrder::kPairwise:
      return "pairwise";
  }
  return "unknown";
}

std::optional<ReductionOrder> parse_reduction_order(std::string_view name) {
  for (const ReductionOrder order :
       {ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise}) {
    if (name == name_of(order)) return order;
  }
  return std::nullopt;
}

// The operands of Kernels::reduce, and the order.
// NOLINTNEXTLINE(readability-function-size)
void reduce_in_order(Kernels& kernels,
                     std::span<void* const> outputs,
                     std::span<const void* const> inputs,
                     std::int64_t count,
                     DType dtype,
                     ReduceOp op,
                     ReductionOrder order) {
  LOCKSTEP_CHECK(!inputs.empty(), "a reduction needs at least one input");
  if (count == 0) return;
  switch (order) {
    case ReductionOrder::kRank:
      kernels.reduce(outputs, inputs, count, dtype, op);
      return;
    case ReductionOrder::kGlooRing:
      reduce_ring(kernels, {outputs, inputs, count, dtype, op});
      return;
    case ReductionOrder::kPairwise:
      reduce_pairwise(kernels, {outputs, inputs, count, dtype, op});
      return;
  }
}

}  // namespace lockstep
