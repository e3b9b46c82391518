#include "lockstep/sim/net/compute_model.h"

#include <cfenv>
#include <fmt/core.h>

#include "lockstep/base/check.h"
#include "lockstep/base/host.h"
#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::sim {

namespace {

class TimedKernels final : public detail::CpuKernels {
 public:
  TimedKernels(ComputeModel& model, Rank rank)
      : CpuKernels(model.signs()), model_(&model), rank_(rank) {}

  void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) override {
    CpuKernels::gemm(out, a, b, options);
    if (out.n_elems() == 0) return;
    const std::int64_t depth = a.shape()[options.transpose_a ? 0 : 1];
    // Other ranks run meanwhile; whether this one's products rounded must not depend on theirs.
    std::fexcept_t flags{};
    std::fegetexceptflag(&flags, FE_ALL_EXCEPT);
    work(out.runtime().host(), model_->time_of(2 * out.n_elems() * depth, rank_));
    std::fesetexceptflag(&flags, FE_ALL_EXCEPT);
  }

 private:
  /// Making up for what was lost takes time, too, in which more may be lost.
  void work(Host& host, Duration left) {
    while (left.ns > 0) {
      const VirtualTime began = host.now();
      host.sleep(left);
      left = model_->lost(rank_, began, host.now());
    }
  }

  ComputeModel* model_;
  Rank rank_;
};

}  // namespace

ComputeModel::ComputeModel(const ComputeSpec& spec, std::int32_t n_ranks)
    : spec_(spec),
      paces_(static_cast<std::size_t>(n_ranks)),
      signs_(std::make_shared<SketchSigns>()) {
  LOCKSTEP_CHECK(spec.mflops > 0,
                 fmt::format("a compute model of {} MFLOP/s: the speed is positive", spec.mflops));
  LOCKSTEP_CHECK(spec.contention_permille >= 0 && spec.contention_permille < 1000,
                 fmt::format("computing loses {} of 1000 to messages: not all of it",
                             spec.contention_permille));
  if (spec.contention_permille > 0) traffic_.emplace(n_ranks);
  for (const ComputeSpec::Slow& slow : spec.slow) {
    LOCKSTEP_CHECK(slow.rank >= 0 && slow.rank < n_ranks,
                   fmt::format("a slow rank {}: the world has {} ranks", slow.rank, n_ranks));
    paces_[static_cast<std::size_t>(slow.rank)].permille = slow.permille;
  }
}

Duration ComputeModel::time_of(std::int64_t n_operations, Rank rank) {
  Pace& pace = paces_[to_index(rank)];
  std::int64_t ns = n_operations * 1000 / spec_.mflops;
  ns = ns * pace.permille / 1000 * pace.now / 1000;
  if (spec_.jitter_permille == 0) return {ns};
  const std::uint64_t stream = mix64(spec_.seed + kGolden64 * (to_index(rank) + 1));
  const std::uint64_t word = mix64(stream + kGolden64 * ++pace.n_drawn);
  const auto more =
      static_cast<std::int64_t>(word % (static_cast<std::uint64_t>(spec_.jitter_permille) + 1));
  return {ns + ns * more / 1000};
}

Duration ComputeModel::lost(Rank rank, VirtualTime begin, VirtualTime end) {
  if (!traffic_) return {};
  return {traffic_->under_way(to_int(rank), begin, end).ns * spec_.contention_permille / 1000};
}

std::unique_ptr<Kernels> make_timed_kernels(ComputeModel& model, Rank rank) {
  return std::make_unique<Kernels>(std::make_unique<TimedKernels>(model, rank));
}

}  // namespace lockstep::sim
