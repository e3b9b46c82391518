// Single collectives with data made from their name, so that any machine can say what comes out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/reduction_order.h"

namespace lockstep {

/// One collective. Its inputs follow from name, rank and element number.
struct CollectiveCase {
  std::string name;  ///< "all_reduce avg bf16 4097 rough"
  CollectiveOp op = CollectiveOp::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  std::int64_t count = 0;  ///< Of one rank's part.
  enum class Data : std::uint8_t {
    kExact,  ///< Small integers: no order of adding rounds.
    kRough,  ///< Fractions of many sizes: a different order gives different bits.
    kProbe,  ///< One element that reveals how an average is computed: 4, 1, 6, 4, 1, 6, ...
  } data = Data::kExact;
};

/// How contributions are added: in which order, and with which rounding.
struct SummingRule {
  enum class Rounding : std::uint8_t {
    kNccl,      ///< Each step in the element type, a factor fused into the sum.
    kNotFused,  ///< A product with a factor rounds before it is added.
    kWide,      ///< f16 and bf16 are added in f32 and rounded at the end.
  };

  ReductionOrder order = ReductionOrder::kNcclRing;
  Rounding rounding = Rounding::kNccl;
};

/// "nccl-ring", "nccl-ring, not fused", "nccl-tree@2, f32 sums".
std::string name_of(const SummingRule& rule);

/// Every operation NCCL has, on every element type, with counts around its chunks.
std::vector<CollectiveCase> collective_cases();

/// All-reduces of f32 from one element to 2^24, and one of f16: where a library cuts long buffers.
std::vector<CollectiveCase> sized_cases();

/// Runs it on this rank.
/// Returns: the digest of what the rank holds afterwards (of a reduce, on the root alone; elsewhere
///     0).
/// Errors: CommError.
std::uint64_t run_case(ProcessGroup& group, const CollectiveCase& one);

/// The digest that `rank` of `n_ranks` must hold when contributions are added by `rule`.
std::uint64_t expected_digest(Runtime& runtime,
                              const CollectiveCase& one,
                              std::int32_t rank,
                              std::int32_t n_ranks,
                              const SummingRule& rule);

/// By which of `rules` the ranks' digests are as expected: the first one's name, or empty.
/// Requires: one digest per rank.
std::string rule_of_digests(Runtime& runtime,
                            const CollectiveCase& one,
                            std::span<const std::uint64_t> by_rank,
                            std::span<const SummingRule> rules);

}  // namespace lockstep
