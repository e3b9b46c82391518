// The named orders in which ranks' contributions are added. Bits depend on it, so it is never
// implied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// How NCCL moves data. It cuts buffers into pieces of other sizes with each, so bits depend on it.
enum class NcclProtocol : std::uint8_t { kSimple, kLl, kLl128 };

/// What else of NCCL decides where a buffer is cut.
struct NcclCuts {
  std::int32_t n_channels = 1;
  NcclProtocol protocol = NcclProtocol::kSimple;
  /// After this many channels the trees repeat: the first half of them use one tree, the second
  /// half the other. 0: they do not. Of rings without a meaning.
  std::int32_t tree_period = 0;
};

/// One way of adding. `ReductionOrder::kRank` and the like convert to it.
///
/// Names: `rank`, `gloo-ring`, `pairwise`; `nccl-ring` and `nccl-tree` (one channel), `nccl-ring@4`
/// (channels), `nccl-tree@4/2` (channels whose trees repeat after two), `nccl-ring.ll@4` and
/// `nccl-ring.ll128` (protocols), `nccl-ring:0,2,1` (the ring's ranks in the order of sending) and
/// `nccl-ring:0,1,2;0,2,1` (one ring per channel).
class ReductionOrder {
 public:
  /// The orders that have a name.
  enum Kind : std::uint8_t {
    kRank,      ///< ((x0 + x1) + x2) + ...
    kGlooRing,  ///< Chunk c of N: x[c] + (x[c+1] + (... + x[c+N-1])), Gloo's ring (segments of 1
                ///< MiB).
    kPairwise,  ///< Adjacent pairs, then pairs of pairs; an odd one is carried.
    kNcclRing,  ///< Chunk c of a loop: ((x[p(c+1)] + x[p(c+2)]) + ...) + x[p(c)] along the ring p.
    kNcclTree,  ///< A rank adds its children's sums to its own value, in their order.
  };

  // Written wherever an order is expected.  NOLINTNEXTLINE(google-explicit-constructor)
  ReductionOrder(Kind kind) : ReductionOrder(kind, NcclCuts{}) {}

  /// Requires: what is not NCCL's has no cuts.
  ReductionOrder(Kind kind, const NcclCuts& cuts);
  /// Rings of equal length, one per channel. Requires: each lists 0 .. n-1, at least one ring.
  explicit ReductionOrder(std::vector<std::vector<std::int32_t>> rings,
                          NcclProtocol protocol = NcclProtocol::kSimple);

  Kind kind() const { return kind_; }

  bool is_nccl() const { return kind_ == kNcclRing || kind_ == kNcclTree; }

  std::int32_t n_channels() const { return cuts_.n_channels; }

  NcclProtocol protocol() const { return cuts_.protocol; }

  /// Whether a channel of a tree uses the second of NCCL's two.
  bool has_second_tree(std::int32_t channel) const;

  /// The ring of `channel`, from rank 0 on; empty: ranks ascending.
  std::span<const std::int32_t> ring(std::int32_t channel) const;

  std::string_view name() const { return name_; }

  /// Whether a world of this size can use it: listed rings name all its ranks.
  bool fits(std::int32_t n_ranks) const;

  friend bool operator==(const ReductionOrder& a, const ReductionOrder& b) {
    return a.name_ == b.name_;
  }

 private:
  Kind kind_;
  NcclCuts cuts_;
  std::vector<std::vector<std::int32_t>> rings_;
  std::string name_;
};

inline std::string_view name_of(const ReductionOrder& order) { return order.name(); }

std::optional<ReductionOrder> parse_reduction_order(std::string_view name);

/// What is reduced. Inputs stand in rank order.
struct RankReduction {
  static constexpr std::int32_t kTakeTurns = -1;

  std::span<void* const> outputs;  ///< All receive the same bits; may alias inputs rank by rank.
  std::span<const void* const> inputs;
  std::int64_t count = 0;  ///< Elements of each.
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  double premul = 1.0;  ///< Factor of kPremulSum.
  /// The rank that gets the result of a reduce or owns the part of a reduce_scatter: NCCL's rings
  /// end there. An all-reduce lets all take turns.
  std::int32_t last = kTakeTurns;
  /// The part lies at `offset` of a buffer of `total` elements (0 = the part is all): Gloo cuts
  /// chunks from the whole buffer.
  std::int64_t offset = 0;
  std::int64_t total = 0;
};

/// outputs[r][i] := reduction over ranks of inputs[.][i] in `order`, the same bits for every r.
///
/// kAvg divides the sum by the number of ranks, except in NCCL's orders on floating-point elements:
/// there it is kPremulSum by 1/N rounded to the dtype. kPremulSum multiplies each input first; in
/// NCCL's orders product and addition are fused, fma(x, factor, sum), at every hop but the first.
///
/// Requires: a listed ring has as many ranks as there are inputs, else ranks ascend.
/// Deterministic: each addition rounds in the element type (f16/bf16: as if computed exactly,
///     rounded once each).
/// Source: gloo/allreduce.cc (ring) for kGlooRing; NCCL device/all_reduce.h (runRing,
///     runTreeUpDown), graph/trees.cc, for kNcclRing and kNcclTree, the bits of 2.28.9 on an H200 but
///     for ll128 (gpu/recordings). A tree only all-reduces: other operations use the ring of
///     ascending ranks.
void reduce_in_order(Kernels& kernels, const RankReduction& job, const ReductionOrder& order);

}  // namespace lockstep
