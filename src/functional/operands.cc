#include "lockstep/functional/detail/operands.h"

#include <fmt/core.h>

namespace lockstep::detail {
namespace {

/// Is part of the graph even under NoGradGuard: a later use may need its gradient.
Variable recorded_cast(const Variable& x, DType dtype) {
  Runtime& runtime = x.runtime();
  const bool enabled = runtime.grad_enabled();
  runtime.set_grad_enabled(true);
  Variable result = cast(x, dtype);
  runtime.set_grad_enabled(enabled);
  return result;
}

/// Autocast converts floating-point numbers, but never f64.
Variable converted(AutocastRegion& region, const Variable& x, DType dtype) {
  const DType from = x.data().dtype();
  if (!is_floating(from) || from == DType::kF64 || from == dtype) return x;
  if (!region.keeps(x, dtype)) return cast(x, dtype);
  Variable before = region.kept(x);
  if (before.defined()) return before;
  Variable result = recorded_cast(x, dtype);
  region.keep(x, result);
  return result;
}

}  // namespace

Variable lowered(const Variable& x) {
  if (!x.defined()) return x;
  AutocastRegion& region = *x.runtime().autocast();
  return converted(region, x, region.options().dtype);
}

void check_norm_dtypes(const Variable& rows, const Tensor& parameter) {
  if (!parameter.defined() || parameter.dtype() == rows.data().dtype()) return;
  LOCKSTEP_CHECK(is_mixed(rows, parameter),
                 fmt::format("a norm takes parameters of the dtype of its rows, or f32 ones with "
                             "16-bit rows: not rows of {} with parameters of {}",
                             name_of(rows.data().dtype()),
                             name_of(parameter.dtype())));
}

Variable raised(const Variable& x) {
  return autocasts(x) ? converted(*x.runtime().autocast(), x, DType::kF32) : x;
}

DType raised_dtype(const Tensor& constant) {
  const DType dtype = constant.dtype();
  const AutocastRegion* const region = constant.runtime().autocast();
  const bool enabled = region != nullptr && region->options().enabled;
  return enabled && is_narrow(dtype) ? DType::kF32 : dtype;
}

}  // namespace lockstep::detail
