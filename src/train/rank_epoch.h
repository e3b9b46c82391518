// Which samples a rank consumes in an epoch, batch by batch, for every sampler of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/train/job.h"

namespace lockstep {

/// The rows of one batch.
struct RowSpan {
  std::span<const std::int64_t> ids;
  std::span<const double> signs;  ///< Empty, or one per row.
};

/// One rank's share of one epoch.
struct RankEpoch {
  std::vector<std::int64_t> ids;          ///< Positions in the data set, in order of consumption.
  std::vector<std::int64_t> batch_sizes;  ///< Their sum is ids.size(), but for a dropped tail.
  std::int64_t dataset_size = 0;
  std::int64_t n_replicas = 1;
  std::uint64_t generator_key = 0;
  std::uint64_t order_digest = 0;  ///< Of the global order, padding included.
  bool pads = false;
  std::vector<double> signs{};  ///< Augmentation: 1 or -1 for each of ids; empty = none.

  RowSpan rows(std::size_t first, std::size_t n) const {
    return {std::span(ids).subspan(first, n),
            signs.empty() ? std::span<const double>() : std::span(signs).subspan(first, n)};
  }
};

/// Plans epoch `sampler_epoch` (what set_epoch was given) for one rank. A permutation is computed
/// once per world and shared through the host's memo.
///
/// Requires: a validated job (sampler and sizes make sense).
/// Deterministic: a function of the job, the rank, the world size and the epoch.
///
/// Requires also: a sampler, not a stream.
RankEpoch plan_epoch(const Job& job, const RankContext& context, std::int64_t sampler_epoch);

/// The loader of one rank's process, over all epochs of its job.
///
/// A sampler's batches depend on the epoch alone: plan_epoch(). A stream is read by the loader's
/// workers, each with a copy of the data set that was made when the worker started. set_epoch()
/// reaches the copies of workers that start afterwards, so persistent ones repeat their first
/// order.
class RankLoader {
 public:
  /// `job` and `context` must outlive it.
  RankLoader(const Job& job, const RankContext& context);
  ~RankLoader();
  RankLoader(const RankLoader&) = delete;
  RankLoader& operator=(const RankLoader&) = delete;
  RankLoader(RankLoader&&) = delete;
  RankLoader& operator=(RankLoader&&) = delete;

  RankEpoch plan(std::int64_t sampler_epoch);
  /// As if epochs 0 to `epoch` - 1 had been read: workers and their copies remember them.
  void skip_to(std::int64_t epoch);

 private:
  class Stream;

  const Job& job_;
  const RankContext& context_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace lockstep
