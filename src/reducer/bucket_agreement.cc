#include "lockstep/reducer/bucket_agreement.h"

#include <algorithm>
#include <fmt/core.h>
#include <memory_resource>

#include "lockstep/base/check.h"

namespace lockstep {

void agree_on_buckets(ProcessGroup& group,
                      std::vector<std::vector<std::int32_t>>& buckets,
                      std::size_t n_params,
                      const OpOptions& options) {
  std::pmr::vector<std::int32_t> indices(&group.runtime().pool());
  std::pmr::vector<std::int32_t> lengths(&group.runtime().pool());
  indices.reserve(n_params + 1);
  lengths.reserve(buckets.size());
  for (const std::vector<std::int32_t>& bucket : buckets) {
    indices.insert(indices.end(), bucket.begin(), bucket.end());
    lengths.push_back(static_cast<std::int32_t>(bucket.size()));
  }
  LOCKSTEP_CHECK(
      indices.size() == n_params,
      fmt::format("the buckets hold {} parameters of {}: each is in one (an error of Lockstep)",
                  indices.size(),
                  n_params));
  indices.push_back(static_cast<std::int32_t>(buckets.size()));
  group.broadcast(Memory::of(std::span(indices)), 0, options).wait_or_throw();

  // Rank 0 may have a different number of buckets from this rank.
  const auto n_buckets = static_cast<std::size_t>(indices.back());
  lengths.resize(n_buckets);
  group.broadcast(Memory::of(std::span(lengths)), 0, options).wait_or_throw();
  buckets.resize(n_buckets);
  auto next = indices.cbegin();
  for (std::size_t b = 0; b < n_buckets; ++b) {
    LOCKSTEP_CHECK(lengths[b] > 0 && lengths[b] < indices.cend() - next,
                   fmt::format("bucket {} of rank 0's layout has {} parameters, of which {} are "
                               "left (an error of Lockstep)",
                               b,
                               lengths[b],
                               indices.cend() - next - 1));
    buckets[b].assign(next, next + lengths[b]);
    next += lengths[b];
  }
}

}  // namespace lockstep
