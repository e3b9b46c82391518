#include "lockstep/sim/net/detail/hop_arithmetic.h"

#include <array>
#include <cstring>

#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::sim {

HopArithmetic::HopArithmetic(const FlightJob& job, bool nccl)
    : kernels_(job.kernels), dtype_(job.dtype), op_(job.reduce), n_ranks_(job.members.size()) {
  const bool average = job.reduce == ReduceOp::kAvg;
  const bool premul = job.reduce == ReduceOp::kPremulSum;
  if (average || premul) op_ = ReduceOp::kSum;
  fused_ = nccl && is_floating(dtype_) && (average || premul);
  scaled_ = fused_ || premul;
  divides_ = average && !fused_;
  if (!scaled_) return;
  const double factor = average ? 1.0 / static_cast<double>(n_ranks_) : job.premul;
  factor_ = detail::rounded_factor(factor, dtype_);
}

void HopArithmetic::reduce(std::byte* out,
                           const std::byte* left,
                           const std::byte* right,
                           std::int64_t n) const {
  void* target = out;
  const std::array<const void*, 2> pair = {left, right};
  kernels_->reduce(std::span<void* const>(&target, 1), pair, n, dtype_, op_);
}

void HopArithmetic::begin(std::byte* sum, const std::byte* x, std::int64_t n) {
  if (scaled_) return detail::scale(sum, x, factor_, n, dtype_);
  if (sum != x) std::memcpy(sum, x, static_cast<std::size_t>(n * size_of(dtype_)));
}

void HopArithmetic::join(std::byte* sum, const std::byte* x, std::int64_t n) {
  if (fused_) return detail::scale_and_add(sum, x, factor_, sum, n, dtype_);
  if (!scaled_) return reduce(sum, sum, x, n);
  scratch_.resize(static_cast<std::size_t>(n * size_of(dtype_)));
  detail::scale(scratch_.data(), x, factor_, n, dtype_);
  reduce(sum, sum, scratch_.data(), n);
}

void HopArithmetic::add_to_own(std::byte* out,
                               const std::byte* own,
                               const std::byte* sum,
                               std::int64_t n) {
  if (fused_) return detail::scale_and_add(out, own, factor_, sum, n, dtype_);
  reduce(out, own, sum, n);
}

// Adding -0 (of integers: 0) changes no number, so N - 1 of them let the kernel divide by N.
void HopArithmetic::finish(std::byte* sum, std::int64_t n) {
  if (!divides_) return;
  const auto bytes = static_cast<std::size_t>(size_of(dtype_));
  scratch_.assign(static_cast<std::size_t>(n) * bytes, std::byte{0});
  if (is_floating(dtype_)) {
    for (std::size_t i = bytes - 1; i < scratch_.size(); i += bytes) scratch_[i] = std::byte{0x80};
  }
  std::vector<const void*> inputs(n_ranks_, scratch_.data());
  inputs[0] = sum;
  void* target = sum;
  kernels_->reduce(std::span<void* const>(&target, 1), inputs, n, dtype_, ReduceOp::kAvg);
}

}  // namespace lockstep::sim
