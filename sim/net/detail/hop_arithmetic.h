// What one hop of a reduction computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

/// The steps of reduce_in_order, one at a time, with the same bits.
///
/// NCCL's orders multiply each contribution by its factor (1/N for an average) when it joins, fused
/// with the addition; the others multiply first, and divide at the end.
class HopArithmetic {
 public:
  HopArithmetic(const FlightJob& job, bool nccl);

  /// sum := x, the chain's first contribution. `sum` may be `x`.
  void begin(std::byte* sum, const std::byte* x, std::int64_t n);
  /// sum := sum op x.
  void join(std::byte* sum, const std::byte* x, std::int64_t n);
  /// out := own op sum, `own` being a contribution that has not begun. `out` may be either.
  void add_to_own(std::byte* out, const std::byte* own, const std::byte* sum, std::int64_t n);

  /// out := left op right, both sums. `out` may be either.
  void merge(std::byte* out, const std::byte* left, const std::byte* right, std::int64_t n) {
    reduce(out, left, right, n);
  }

  /// What is left to do when all contributions are in.
  void finish(std::byte* sum, std::int64_t n);

 private:
  void reduce(std::byte* out, const std::byte* left, const std::byte* right, std::int64_t n) const;

  Kernels* kernels_;
  DType dtype_;
  ReduceOp op_;  // kSum in the place of averages and scaled sums.
  std::size_t n_ranks_;
  bool scaled_ = false;
  bool fused_ = false;
  bool divides_ = false;
  double factor_ = 1.0;
  std::vector<std::byte> scratch_;
};

}  // namespace lockstep::sim
