// How long ranks compute.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/types.h"
#include "lockstep/sim/net/net_options.h"
#include "lockstep/sim/net/traffic.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::sim {

/// Turns operations into virtual time, with whole numbers only: exact mode watches the processor's
/// flags meanwhile.
///
/// Deterministic: each rank draws its jitter from its own stream, one number per piece of work.
class ComputeModel {
 public:
  ComputeModel(const ComputeSpec& spec, std::int32_t n_ranks);

  /// What `n_operations` additions and multiplications take on `rank`, this time.
  Duration time_of(std::int64_t n_operations, Rank rank);

  /// What `rank` has not computed from `begin` to `end`, since messages of its own were under way.
  Duration lost(Rank rank, VirtualTime begin, VirtualTime end);

  /// Absent: computing loses nothing to messages. Else to be given all of them.
  Traffic* traffic() { return traffic_ ? &*traffic_ : nullptr; }

  /// From now on `rank` takes `permille` / 1000 of its own time.
  void set_pace(Rank rank, std::int64_t permille) { paces_[to_index(rank)].now = permille; }

  /// What the kernels of all ranks sketch with.
  const std::shared_ptr<SketchSigns>& signs() const { return signs_; }

 private:
  struct Pace {
    std::int64_t permille = 1000;  ///< The machine's.
    std::int64_t now = 1000;       ///< What slows it down for a time.
    std::uint64_t n_drawn = 0;
  };

  ComputeSpec spec_;
  std::vector<Pace> paces_;
  std::optional<Traffic> traffic_;
  std::shared_ptr<SketchSigns> signs_;
};

/// The CPU's kernels, with a rank's matrix products taking the time that `model` says; the same
/// bits. The rank sleeps meanwhile, so everything else continues: transfers overlap with computing.
/// What it loses to transfers it makes up for at the end of a product.
///
/// `rank` makes its own.
/// Requires: model outlives the result.
std::unique_ptr<Kernels> make_timed_kernels(ComputeModel& model, Rank rank);

}  // namespace lockstep::sim
