#include "lockstep/reducer/bucket_plan.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep {

namespace {

// The bucket being filled for one (dtype, device).
struct OpenBucket {
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  std::vector<std::int32_t> members;
  std::int64_t bytes = 0;
  std::size_t i_limit = 0;
};

OpenBucket& open_bucket_of(std::vector<OpenBucket>& open,
                           const PlannedTensor& tensor,
                           std::size_t n_most) {
  for (OpenBucket& bucket : open) {
    if (bucket.dtype == tensor.dtype && bucket.device == tensor.device) return bucket;
  }
  OpenBucket& fresh = open.emplace_back();
  fresh.members.reserve(n_most);
  fresh.dtype = tensor.dtype;
  fresh.device = tensor.device;
  return fresh;
}

void close(BucketPlan& plan, OpenBucket& bucket, std::int64_t limit_bytes) {
  plan.buckets.push_back(std::exchange(bucket.members, {}));
  plan.limits_bytes.push_back(limit_bytes);
  bucket.bytes = 0;
}

BucketPlan sorted_by_smallest_index(BucketPlan plan) {
  if (plan.buckets.size() < 2) return plan;
  std::vector<std::pair<std::int32_t, std::size_t>> order;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    order.emplace_back(*std::min_element(plan.buckets[b].begin(), plan.buckets[b].end()), b);
  }
  std::sort(order.begin(), order.end());
  BucketPlan sorted;
  for (const auto& [smallest, b] : order) {
    sorted.buckets.push_back(std::move(plan.buckets[b]));
    sorted.limits_bytes.push_back(plan.limits_bytes[b]);
  }
  return sorted;
}

}  // namespace

BucketPlan compute_bucket_assignment_by_size(std::span<const PlannedTensor> tensors,
                                             std::span<const std::int64_t> limits_bytes,
                                             std::span<const std::int32_t> index_map) {
  LOCKSTEP_CHECK(!limits_bytes.empty(),
                 "an assignment of parameters to buckets needs a limit in bytes, got none");
  LOCKSTEP_CHECK(
      index_map.empty() || index_map.size() == tensors.size(),
      fmt::format("an index map of {} entries for {} tensors", index_map.size(), tensors.size()));
  BucketPlan plan;
  std::vector<OpenBucket> open;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int32_t index = index_map.empty() ? static_cast<std::int32_t>(i) : index_map[i];
    if (tensors[i].expects_sparse) {
      plan.buckets.push_back({index});
      plan.limits_bytes.push_back(0);
      continue;
    }
    OpenBucket& bucket = open_bucket_of(open, tensors[i], tensors.size() - i);
    bucket.members.push_back(index);
    bucket.bytes += tensors[i].n_elems * size_of(tensors[i].dtype);
    const std::int64_t limit_bytes = limits_bytes[bucket.i_limit];
    if (bucket.bytes < limit_bytes) continue;
    close(plan, bucket, limit_bytes);
    bucket.i_limit = std::min(bucket.i_limit + 1, limits_bytes.size() - 1);
  }
  // PyTorch walks a hash map here, and libstdc++'s yields its few keys newest first.
  std::reverse(open.begin(), open.end());
  for (OpenBucket& bucket : open) {
    if (!bucket.members.empty()) close(plan, bucket, limits_bytes[bucket.i_limit]);
  }
  if (!index_map.empty()) return plan;
  return sorted_by_smallest_index(std::move(plan));
}

}  // namespace lockstep
