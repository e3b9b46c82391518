#include "lockstep/autograd/autocast.h"

#include <fmt/core.h>

namespace lockstep {

bool AutocastRegion::keeps(const Variable& x, DType dtype) const {
  return options_.cache_enabled && dtype == options_.dtype && x.data().dtype() == DType::kF32 &&
         x.requires_grad() && x.is_leaf();
}

Variable AutocastRegion::kept(const Variable& x) const {
  const auto found = cache_.find(x.state().id);
  return found == cache_.end() ? Variable() : found->second.result;
}

void AutocastRegion::keep(const Variable& x, const Variable& converted) {
  cache_[x.state().id] = {x, converted};
}

AutocastGuard::AutocastGuard(Runtime& runtime, const AutocastOptions& options)
    : runtime_(runtime), outermost_(runtime.autocast() == nullptr) {
  LOCKSTEP_CHECK(
      !options.enabled || is_narrow(options.dtype),
      fmt::format("autocast computes in f16 or bf16, not in {}", name_of(options.dtype)));
  if (outermost_) runtime.set_autocast(&own_);
  AutocastRegion& region = *runtime.autocast();
  previous_ = region.options_;
  region.options_ = options;
}

AutocastGuard::~AutocastGuard() {
  if (outermost_) {
    runtime_.set_autocast(nullptr);
  } else if (AutocastRegion* region = runtime_.autocast()) {
    region->options_ = previous_;
  }
}

AutocastOptions autocast_options(const Runtime& runtime) {
  const AutocastRegion* const region = runtime.autocast();
  return region != nullptr ? region->options() : AutocastOptions{.enabled = false};
}

}  // namespace lockstep
