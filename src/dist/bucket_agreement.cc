#include "lockstep/dist/bucket_agreement.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep {

void agree_on_buckets(ProcessGroup& group,
                      std::vector<std::vector<std::int32_t>>& buckets,
                      std::size_t n_params,
                      const OpOptions& options) {
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> lengths;
  for (const std::vector<std::int32_t>& bucket : buckets) {
    indices.insert(indices.end(), bucket.begin(), bucket.end());
    lengths.push_back(static_cast<std::int32_t>(bucket.size()));
  }
  LOCKSTEP_CHECK(indices.size() == n_params, "buckets hold every parameter once");
  indices.push_back(static_cast<std::int32_t>(buckets.size()));
  group.broadcast(Memory::of(std::span(indices)), 0, options).wait_or_throw();

  // Rank 0 may have another number of buckets than this rank had.
  const auto n_buckets = static_cast<std::size_t>(indices.back());
  lengths.resize(n_buckets);
  group.broadcast(Memory::of(std::span(lengths)), 0, options).wait_or_throw();
  buckets.assign(n_buckets, {});
  auto next = indices.cbegin();
  for (std::size_t b = 0; b < n_buckets; ++b) {
    LOCKSTEP_CHECK(lengths[b] > 0 && lengths[b] < indices.cend() - next,
                   "rank 0's layout is whole");
    buckets[b].assign(next, next + lengths[b]);
    next += lengths[b];
  }
}

}  // namespace lockstep
