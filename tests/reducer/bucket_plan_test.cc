#include "lockstep/reducer/bucket_plan.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Buckets = std::vector<std::vector<std::int32_t>>;
using Bytes = std::vector<std::int64_t>;

PlannedTensor f32(std::int64_t n) { return {n, DType::kF32, Device::kCpu}; }

PlannedTensor f64(std::int64_t n) { return {n, DType::kF64, Device::kCpu}; }

// The four vectors of PyTorch's ComputeBucketAssignmentTest (test_c10d_common.py).
TEST(BucketPlanTest, MatchesPyTorchForOneLimitAndOneDtype) {
  const std::vector<PlannedTensor> tensors = {f32(100), f32(200), f32(100), f32(50)};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{400});
  EXPECT_EQ(plan.buckets, (Buckets{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(plan.limits_bytes, (Bytes{400, 400, 400, 400}));
}

TEST(BucketPlanTest, MatchesPyTorchForOneLimitAndTwoDtypes) {
  const std::vector<PlannedTensor> tensors = {f32(50), f64(25), f32(50), f64(25), f32(50), f64(25)};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{400});
  EXPECT_EQ(plan.buckets, (Buckets{{0, 2}, {1, 3}, {4}, {5}}));
}

TEST(BucketPlanTest, MatchesPyTorchForTwoLimitsAndOneDtype) {
  const std::vector<PlannedTensor> tensors(4, f32(10));
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{40, 80});
  EXPECT_EQ(plan.buckets, (Buckets{{0}, {1, 2}, {3}}));
  EXPECT_EQ(plan.limits_bytes, (Bytes{40, 80, 80}));
}

TEST(BucketPlanTest, MatchesPyTorchForTwoLimitsAndTwoDtypes) {
  const std::vector<PlannedTensor> tensors = {f32(50), f64(25), f32(50), f64(25), f32(50), f64(25)};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{200, 400});
  EXPECT_EQ(plan.buckets, (Buckets{{0}, {1}, {2, 4}, {3, 5}}));
  EXPECT_EQ(plan.limits_bytes, (Bytes{200, 200, 400, 400}));
}

TEST(BucketPlanTest, LetsALargeTensorJoinTheSmallOnesBeforeIt) {
  const std::vector<PlannedTensor> tensors = {f32(1), f32(1000), f32(1)};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{100});
  EXPECT_EQ(plan.buckets, (Buckets{{0, 1}, {2}}));
}

TEST(BucketPlanTest, WithAnIndexMapKeepsTheOrderInWhichBucketsFill) {
  const std::vector<PlannedTensor> tensors = {f32(10), f32(10), f32(10)};
  const std::vector<std::int32_t> ready = {2, 0, 1};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{40, 80}, ready);
  EXPECT_EQ(plan.buckets, (Buckets{{2}, {0, 1}}));
}

// What PyTorch's own function answers in 1.13 and 2.15, for all 24 orders of four dtypes.
TEST(BucketPlanTest, WithAnIndexMapLeftoversComeNewestDtypeFirst) {
  const std::vector<PlannedTensor> tensors = {
      f32(4), {4, DType::kF16, Device::kCpu}, f64(4), f32(4)};
  const std::vector<std::int32_t> ready = {3, 2, 1, 0};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{1'000'000}, ready);
  EXPECT_EQ(plan.buckets, (Buckets{{1}, {2}, {3, 0}}));
}

TEST(BucketPlanTest, KeepsTensorsWithoutElements) {
  const std::vector<PlannedTensor> tensors = {f32(0), f32(0)};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{4});
  EXPECT_EQ(plan.buckets, (Buckets{{0, 1}}));
}

// Six times Linear(1000, 300) interleaved with Linear(300, 1000), gradients ready from the back: a
// cap of 4 MiB with a first bucket of 1 MiB.
TEST(BucketPlanTest, GivesTheBucketSizesPyTorchLogged) {
  std::vector<PlannedTensor> tensors;
  for (int i = 0; i < 6; ++i) {
    tensors.push_back(f32(1000));
    tensors.push_back(f32(300'000));
    tensors.push_back(f32(300));
    tensors.push_back(f32(300'000));
  }
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, Bytes{1'048'576, 26'214'400});
  Bytes sizes;
  for (const auto& bucket : plan.buckets) {
    std::int64_t bytes = 0;
    for (const std::int32_t i : bucket) bytes += 4 * tensors[static_cast<std::size_t>(i)].n_elems;
    sizes.push_back(bytes);
  }
  EXPECT_EQ(sizes, (Bytes{1'204'000, 13'227'200}));
}

TEST(BucketPlanTest, RefusesToPlanWithoutALimit) {
  EXPECT_THROW(compute_bucket_assignment_by_size({}, {}), std::logic_error);
}

// Emitted at once, so that without a map the sort puts it where its index is.
TEST(BucketPlanTest, ATensorOfSparseGradientsHasItsOwnBucket) {
  std::vector<PlannedTensor> tensors(4, f32(10));
  tensors[1].expects_sparse = true;
  const std::int64_t limits[] = {1000};
  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, limits);
  EXPECT_EQ(plan.buckets, (std::vector<std::vector<std::int32_t>>{{0, 2, 3}, {1}}));
  EXPECT_EQ(plan.limits_bytes, (std::vector<std::int64_t>{1000, 0}));
  const std::int32_t map[] = {3, 2, 1, 0};
  const BucketPlan mapped = compute_bucket_assignment_by_size(tensors, limits, map);
  EXPECT_EQ(mapped.buckets, (std::vector<std::vector<std::int32_t>>{{2}, {3, 1, 0}}));
}

}  // namespace
}  // namespace lockstep
