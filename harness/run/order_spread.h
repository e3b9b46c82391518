// How far apart the results of one job lie when only the order of its additions changes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// What is changed in a run, one thing at a time.
enum class SpreadAxis : std::uint8_t {
  kOrders,   ///< The reduction order: rank, gloo-ring, pairwise, nccl-ring in several rings,
             ///< nccl-tree.
  kBuckets,  ///< One bucket per parameter; one bucket for all.
  kWorlds,   ///< Other numbers of ranks on the same global batches.
};
inline constexpr std::size_t kSpreadAxes = 3;
std::string_view name_of(SpreadAxis axis);  ///< "orders", "buckets", "worlds".

/// One run compared with the base.
struct SpreadRun {
  SpreadAxis axis = SpreadAxis::kOrders;
  std::string name;      ///< "nccl-tree", "one bucket per parameter", "4 ranks"
  std::string left_out;  ///< Why it says nothing; empty: it counts.
};

/// The element in which runs lie furthest apart, in units in the last place (numbers of its type
/// between the lowest and the highest value; kNotANumber if only some of them are one).
struct Spread {
  static constexpr std::uint64_t kNotANumber = ~std::uint64_t{0};

  std::uint64_t ulps = 0;
  std::int64_t element = 0;
  double low = 0.0;
  double high = 0.0;
  /// The largest distance of all elements, in units in the last place of the tensor's largest
  /// value: elements in which terms cancel do not count for more than they weigh. NaN as above.
  double scaled = 0.0;
};

struct TensorSpread {
  std::string name;
  bool is_gradient = false;  ///< As the optimizer uses it; else a parameter after the step.
  std::int64_t step = 0;
  std::array<Spread, kSpreadAxes> by_axis;
  Spread all;  ///< Over the runs of all axes together.
};

struct OrderSpread {
  std::string title;
  std::string base;  ///< "order rank, 4 ranks"
  std::vector<SpreadRun> runs;
  /// Gradients of the first step, where only the order can differ; then the parameters
  /// after the last step, into which those differences have grown.
  std::vector<TensorSpread> tensors;
};

/// Numbers of `dtype` from a to b, not counting a: 0 when they are equal (-0 equals 0), 1 for
/// neighbours.
/// Requires: a floating dtype; values of it.
std::uint64_t ulps_between(double a, double b, DType dtype);

/// Runs a scenario's job once as it is and once for each change.
///
/// Errors: those of load_scenario; raw programs; a job that does not end; no values recorded.
Result<OrderSpread> order_spread(const std::string& path,
                                 const std::string& variant,
                                 const std::vector<Setting>& settings);

}  // namespace lockstep
