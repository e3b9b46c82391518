// The two simplest results of a hook, and the division all of them share.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/reducer/comm_hook.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::detail {

/// For collectives on something else than the bucket's elements in their order.
inline OpOptions without_layout(OpOptions options) {
  options.layout = 0;
  return options;
}

/// A result that is there already.
class ReadyBucket final : public PendingBucket {
 public:
  explicit ReadyBucket(Tensor result) : result_(std::move(result)) {}

  Tensor wait() override { return result_; }

 private:
  Tensor result_;
};

/// An all-reduce that works in place on the result.
class ReducingBucket final : public PendingBucket {
 public:
  ReducingBucket(Tensor data, ProcessGroup& group, const OpOptions& options)
      : data_(std::move(data)),
        work_(group.all_reduce(Memory::of(data_), ReduceOp::kSum, options)) {}

  Tensor wait() override {
    work_.wait_or_throw();
    return data_;
  }

 private:
  Tensor data_;
  Work work_;
};

/// data /= divisor, a true division rounded in the tensor's dtype. 16-bit floats are divided as f32
/// and rounded once more, as PyTorch does on the CPU.
inline void divide(const Tensor& data, std::int32_t divisor) {
  Kernels& kernels = data.runtime().kernels();
  if (!is_narrow(data.dtype())) {
    kernels.div_scalar(data, data, divisor);
    return;
  }
  const Tensor wide = data.to(DType::kF32);
  kernels.div_scalar(wide, wide, divisor);
  kernels.copy(data, wide);
}

/// data := its mean over the group's ranks: divided first, added afterwards.
inline std::unique_ptr<PendingBucket> average(const Tensor& data,
                                              ProcessGroup& group,
                                              const OpOptions& options) {
  divide(data, group.size());
  return std::make_unique<ReducingBucket>(data, group, options);
}

}  // namespace lockstep::detail
