// Which order of adding gives a result's bits.
//
//   chain     ((x0 + x1) + x2) + x3     reductions in rank order; what a ring does, from another rank on
//                                       in each chunk, and some rings backwards
//   neighbours (x0 + x1) + (x2 + x3)    recursive doubling, binomial trees
//   halves    (x0 + x2) + (x1 + x3)     recursive halving: the first partner is half the ranks away
//   folded    ((x0 + x1) + x2) + (x3 + x4)   where n is not a power of two: n - 2^k pairs are added first, as
//                                       MPI libraries do, then pairs of neighbours
//   blocks    ((x0 + x1) + (x2 + x3)) + x4   or by the binary digits of n: pairs of neighbours in each
//                                       power of two, smaller sums added to larger ones, as Gloo does
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/formats/float_format.h"
#include "lockstep/harness/rounding/sum_bound.h"

namespace lockstep {

/// The shape of a tree of additions.
enum class SumShape : std::uint8_t {
  kChain,
  kBackwardChain,
  kNeighbours,
  kHalves,
  kFoldedNeighbours,
  kBlocks
};
template <>
inline constexpr EnumNames<6> kEnumNames<SumShape> = {"chain",
                                                      "backward chain",
                                                      "pairs of neighbours",
                                                      "pairs of halves",
                                                      "folded pairs of neighbours",
                                                      "blocks of neighbours"};

/// How a mean, or a scaled sum, comes about.
enum class MeanStep : std::uint8_t {
  kNone,
  kDividedBefore,
  kDividedAfter,
  kMultipliedBefore,
  kMultipliedAfter
};
template <>
inline constexpr EnumNames<5> kEnumNames<MeanStep> = {
    "", "divided before", "divided after", "multiplied before", "multiplied after"};

/// One order of adding.
struct SumOrder {
  SumShape shape = SumShape::kChain;
  std::int32_t first = 0;  ///< The rank whose contribution stands first; ranks follow cyclically.
  MeanStep mean = MeanStep::kNone;

  friend bool operator==(const SumOrder&, const SumOrder&) = default;
};

/// "chain from rank 3, divided after"
std::string text_of(const SumOrder& order);

/// The result of adding in this order, each operation rounded in `format`.
double add_in_order(std::span<const double> contributions,
                    const FloatFormat& format,
                    const SumOrder& order,
                    const Combination& reduction = {});

/// All orders that are tried for n contributions, the likeliest first.
std::vector<SumOrder> orders_of(std::int32_t n, const Combination& reduction);

/// Elements [begin, end) whose bits `order` gives.
struct OrderRun {
  SumOrder order;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Explains a result by as few runs as an order that is kept as long as it fits gives: one run for
/// a library that adds the whole buffer in one order, one per chunk for a ring.
///
/// `contribution(rank, element)` is a number of `format`. Absent: some element has the bits of no order
/// that is tried.
class SumOrderSearch {
 public:
  SumOrderSearch(std::int32_t n, const FloatFormat& format, const Combination& reduction);

  /// Feeds the next element. Requires: n contributions.
  void add(std::span<const double> contributions, double result);

  /// Runs so far; absent once an element was not explained.
  std::optional<std::vector<OrderRun>> runs() const;

 private:
  bool fits(std::span<const double> contributions, const SumOrder& order, double result) const;

  FloatFormat format_;
  Combination reduction_;
  std::vector<SumOrder> orders_;
  std::vector<SumOrder> fitting_;  ///< All elements of the run under way.
  std::vector<OrderRun> runs_;
  std::int64_t n_elements_ = 0;
  bool explained_ = true;
};

}  // namespace lockstep
