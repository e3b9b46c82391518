// Which parameters share a bucket, as a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// What the assignment looks at.
struct PlannedTensor {
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  bool expects_sparse = false;  ///< Its gradients come as lists of rows.
};

/// Buckets in launch order, each a list of variable indices, and the limit each was filled under.
struct BucketPlan {
  std::vector<std::vector<std::int32_t>> buckets;
  std::vector<std::int64_t> limits_bytes;
};

/// Groups tensors of one dtype and device into buckets, in the order given.
///
/// A bucket closes once it holds at least its limit, so it may exceed it by one tensor. The k-th
/// bucket of a (dtype, device) pair uses the k-th limit, later ones the last. With `index_map`,
/// tensor i stands for variable index_map[i] and buckets keep the order in which they closed;
/// without it they are sorted by their smallest index. A tensor that expects sparse gradients has a
/// its own bucket, with limit 0.
///
/// Units: bytes.
/// Requires: at least one limit; index_map empty or one entry per tensor.
/// Deterministic: depends on nothing but its arguments. What is left at the end follows the first
///     appearance of its (dtype, device) pair.
/// Source: c10d reducer.cpp, compute_bucket_assignment_by_size. A departure: PyTorch emits the
///     leftovers of several dtypes in the order of a hash map.
BucketPlan compute_bucket_assignment_by_size(std::span<const PlannedTensor> tensors,
                                             std::span<const std::int64_t> limits_bytes,
                                             std::span<const std::int32_t> index_map = {});

}  // namespace lockstep
