// Cuts a rank's samples into batches.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// Consecutive chunks of a list of samples.
///
/// Source: PyTorch 1.13, torch/utils/data/sampler.py, BatchSampler.
class BatchSampler {
 public:
  /// Errors: a batch size below 1, in PyTorch's words.
  static Result<BatchSampler> make(std::int64_t batch_size, bool drop_last = false);

  std::int64_t batch_size() const { return batch_size_; }

  bool drop_last() const { return drop_last_; }

  /// Batches that `samples` samples make. Requires: samples >= 0.
  std::int64_t length(std::int64_t samples) const {
    const bool tail = !drop_last_ && samples % batch_size_ != 0;
    return samples / batch_size_ + (tail ? 1 : 0);
  }

  /// Batch k of `samples`, a view into them: batch_size() long, or shorter as the kept tail.
  ///
  /// Requires: 0 <= k < length(samples.size()).
  std::span<const std::int64_t> batch(std::span<const std::int64_t> samples, std::int64_t k) const;

 private:
  BatchSampler(std::int64_t batch_size, bool drop_last)
      : batch_size_(batch_size), drop_last_(drop_last) {}

  std::int64_t batch_size_;
  bool drop_last_;
};

}  // namespace lockstep::data
