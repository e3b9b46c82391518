// Which samples a rank sees in an epoch: DistributedSampler, index for index as PyTorch yields
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
class Memo;
class RankContext;
}  // namespace lockstep

namespace lockstep::data {

/// What a sampler is made from; names and defaults are PyTorch's.
struct DistributedSamplerOptions {
  std::int64_t size = 0;      ///< Samples in the data set.
  std::int64_t replicas = 1;  ///< Ranks that share them.
  std::int64_t rank = 0;      ///< This rank, 0 .. replicas-1.
  bool shuffle = true;
  std::int64_t seed = 0;  ///< Equal on all ranks, else they draw different permutations. Seeds from
                          ///< 2^63 on are given as the negative number with the same 64 bits.
  bool drop_last = false;  ///< Cut the tail that does not divide evenly, instead of padding it.
};

/// The same for a sampler that knows its rank.
struct RankSamplerOptions {
  std::int64_t size = 0;
  std::optional<std::int64_t> replicas{};  ///< None: the world.
  std::optional<std::int64_t> rank{};      ///< None: this rank of the world.
  bool shuffle = true;
  std::int64_t seed = 0;
  bool drop_last = false;
  std::string split = "train";  ///< What events call its passes.
};

class PassRecord;

/// The order of one epoch's samples, shared by all ranks, which starts over at its end when padding
/// is needed. Entry k of a rank is place rank + k * replicas, so a rank need not store its own
/// list.
class EpochOrder {
 public:
  /// `permutation` may be null: the order 0 .. size-1.
  EpochOrder(std::shared_ptr<const std::vector<std::int64_t>> permutation, std::int64_t size)
      : permutation_(std::move(permutation)), size_(size) {}

  /// The sample at a place of the global order, padding included. Requires: place >= 0, size > 0.
  std::int64_t at(std::int64_t place) const {
    const std::int64_t wrapped = place < size_ ? place : place % size_;
    return permutation_ ? (*permutation_)[static_cast<std::size_t>(wrapped)] : wrapped;
  }

 private:
  std::shared_ptr<const std::vector<std::int64_t>> permutation_;
  std::int64_t size_;
};

/// Deals the samples of a data set out to ranks, the same number to each.
///
/// With N replicas the epoch's order (a permutation drawn with seed + epoch, or 0 .. size-1) is cut
/// or padded with its own beginning to N * length() places, and rank r takes places r, r + N, r +
/// 2N, ...
///
/// Deterministic: a function of the options and the epoch alone, so ranks agree without talking.
///     The sum seed + epoch wraps modulo 2^64 (PyTorch raises an error there); of it the generator
///     uses the low 32 bits, so epochs repeat with period 2^32.
/// Source: PyTorch 1.13, torch/utils/data/distributed.py.
///
/// One that was made with a rank's context records its passes: each call of indices(), and each
/// pass of a RankSampler or a loader over it, begins an epoch.
class DistributedSampler {
 public:
  /// This rank's sampler over the whole world, as a program makes it:
  ///
  ///   data::DistributedSampler sampler(rank, {.size = dataset.size()});
  ///
  /// Errors: std::invalid_argument where make() has an error.
  DistributedSampler(const RankContext& context, const RankSamplerOptions& options);

  /// Errors: a rank outside 0 .. replicas-1, in PyTorch's words; a negative size; a size so large
  ///     that the padded count overflows.
  static Result<DistributedSampler> make(const DistributedSamplerOptions& options);

  const DistributedSamplerOptions& options() const { return options_; }

  /// Chooses the permutation of the next passes. Without it every epoch repeats the same order.
  void set_epoch(std::int64_t epoch) {
    epoch_ = epoch;
    *epoch_was_set_ = true;
  }

  std::int64_t epoch() const { return epoch_; }

  /// Samples this rank yields in an epoch: the same on every rank.
  std::int64_t length() const { return length_; }

  /// Places of the global order, padding included: replicas * length().
  std::int64_t total() const { return length_ * options_.replicas; }

  /// The epoch's order. With a memo the ranks of a world compute and hold one permutation together.
  EpochOrder order(Memo* memo = nullptr) const;

  /// Replaces `out` by this rank's samples, in order; recorded as a pass that reads them all.
  /// Shapes: (length(),).
  void indices(std::vector<std::int64_t>& out, Memo* memo = nullptr) const;
  /// A pass begins whose samples another one reads, and may record: PassRecord::read of record().
  void begin_pass() const;

  /// Null: nothing is recorded.
  PassRecord* record() const { return record_.get(); }

  /// The memo of the rank's host, or null.
  Memo* memo() const { return memo_; }

  /// Replaces `out` by what all ranks yield, interleaved. Shapes: (total(),).
  void global_order(std::vector<std::int64_t>& out, Memo* memo = nullptr) const;

 private:
  DistributedSampler(const DistributedSamplerOptions& options, std::int64_t length)
      : options_(options), length_(length) {}

  DistributedSamplerOptions options_;
  std::int64_t length_;
  std::int64_t epoch_ = 0;
  Memo* memo_ = nullptr;
  // Shared by copies, as the passes of one sampler are.
  std::shared_ptr<PassRecord> record_;
  std::shared_ptr<bool> epoch_was_set_ = std::make_shared<bool>(false);
};

}  // namespace lockstep::data
