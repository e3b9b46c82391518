#include "lockstep/data/batch_sampler.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>

#include "lockstep/base/check.h"

namespace lockstep::data {

Result<BatchSampler> BatchSampler::make(std::int64_t batch_size, bool drop_last) {
  if (batch_size <= 0) {
    return Error{.message = "batch_size should be a positive integer value, but got batch_size=" +
                            std::to_string(batch_size),
                 .where = ""};
  }
  return BatchSampler(batch_size, drop_last);
}

std::span<const std::int64_t> BatchSampler::batch(std::span<const std::int64_t> samples,
                                                  std::int64_t k) const {
  const auto n = static_cast<std::int64_t>(samples.size());
  LOCKSTEP_CHECK(
      k >= 0 && k < length(n),
      fmt::format("no batch {}: {} samples make {} batches of {}", k, n, length(n), batch_size_));
  const std::int64_t first = k * batch_size_;
  return samples.subspan(static_cast<std::size_t>(first),
                         static_cast<std::size_t>(std::min(batch_size_, n - first)));
}

}  // namespace lockstep::data
