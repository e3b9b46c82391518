// The named orders in which ranks' contributions are added. Bits depend on it, so it is never
// implied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/dist/process_group.h"

namespace lockstep {

enum class ReductionOrder : std::uint8_t {
  kRank,      ///< ((x0 + x1) + x2) + ...
  kGlooRing,  ///< Chunk c of N: x[c] + (x[c+1] + (... + x[c+N-1])), Gloo's ring (segments of 1
              ///< MiB).
  kPairwise,  ///< Adjacent pairs, then pairs of pairs; an odd one is carried.
};
std::string_view name_of(ReductionOrder order);
std::optional<ReductionOrder> parse_reduction_order(std::string_view name);

/// outputs[r][i] := reduction over ranks of inputs[.][i] in `order`, the same bits for every r.
/// Outputs may alias inputs rank by rank (in place), as in an all-reduce.
///
/// Requires:      inputs in rank order, `count` elements of `dtype` each.
/// Deterministic: each addition rounds in the element type (f16/bf16: computed in f32, rounded once
/// each). Source:        gloo/allreduce.cc (ring) for kGlooRing.
void reduce_in_order(Kernels& kernels,
                     std::span<void* const> outputs,
                     std::span<const void* const> inputs,
                     std::int64_t count,
                     DType dtype,
                     ReduceOp op,
                     ReductionOrder order);

}  // namespace lockstep
