#include "lockstep/hooks/compress_hooks.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

namespace {

/// Brings what an inner result says into `wide`, by way of `narrow`.
class WideningBucket final : public PendingBucket {
 public:
  WideningBucket(std::unique_ptr<PendingBucket> inner, Tensor narrow, Tensor wide)
      : inner_(std::move(inner)), narrow_(std::move(narrow)), wide_(std::move(wide)) {}

  Tensor wait() override {
    Kernels& kernels = wide_.runtime().kernels();
    kernels.copy(narrow_, inner_->wait());
    kernels.copy(wide_, narrow_);
    return wide_;
  }

 private:
  std::unique_ptr<PendingBucket> inner_;
  Tensor narrow_;
  Tensor wide_;
};

void check_wire(DType wire) {
  LOCKSTEP_CHECK(is_narrow(wire),
                 fmt::format("gradients are compressed to f16 or bf16, not to {}", name_of(wire)));
}

}  // namespace

CompressHook::CompressHook(ProcessGroup& group, DType wire) : group_(&group), wire_(wire) {
  check_wire(wire);
}

std::unique_ptr<PendingBucket> CompressHook::run(GradBucket& bucket) {
  const Tensor narrow = bucket.buffer().to(wire_);
  return std::make_unique<WideningBucket>(
      detail::average(narrow, *group_, bucket.op_options()), narrow, bucket.buffer());
}

CompressWrapper::CompressWrapper(std::unique_ptr<CommHook> inner, DType wire)
    : inner_(std::move(inner)), wire_(wire) {
  LOCKSTEP_CHECK(inner_ != nullptr, "CompressWrapper got no hook to wrap");
  check_wire(wire);
}

std::unique_ptr<PendingBucket> CompressWrapper::run(GradBucket& bucket) {
  const Tensor wide = bucket.buffer();
  const Tensor narrow = wide.to(wire_);
  bucket.set_buffer(narrow);
  return std::make_unique<WideningBucket>(inner_->run(bucket), narrow, wide);
}

}  // namespace lockstep
