#include "lockstep/optim/clip.h"

#include <cmath>
#include <fmt/core.h>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::optim {
namespace {

/// What the norm is taken of: the gradients, of sparse ones the sums of their rows.
std::vector<Tensor> gradients_of(std::span<const Variable> parameters) {
  std::vector<Tensor> grads;
  for (const Variable& parameter : parameters) {
    if (!parameter.has_grad()) continue;
    const Ref<SparseRows>& rows = parameter.state().sparse_grad;
    grads.push_back(rows ? rows->coalesce()->values() : parameter.grad());
    LOCKSTEP_CHECK(
        grads.back().dtype() == grads.front().dtype(),
        fmt::format("cannot clip gradients of {} and {} together: they must share a dtype",
                    name_of(grads.front().dtype()),
                    name_of(grads.back().dtype())));
  }
  return grads;
}

double joint_norm(std::span<const Tensor> grads, double norm_type) {
  std::vector<double> norms;
  norms.reserve(grads.size());
  for (const Tensor& grad : grads) {
    norms.push_back(grad.runtime().kernels().norm(grad, norm_type));
  }
  const Tensor& first = grads.front();
  const Shape shape{static_cast<std::int64_t>(norms.size())};
  return first.runtime().kernels().norm(Tensor::of(first.runtime(), shape, first.dtype(), norms),
                                        norm_type);
}

/// max_norm / (total + 1e-6) as PyTorch evaluates it in the gradients' dtype: a reciprocal, then a
/// product. NaN stays NaN.
template <typename T>
double coefficient(double total, double max_norm) {
  const T reciprocal = T{1} / (static_cast<T>(total) + static_cast<T>(1e-6));
  const T coef = reciprocal * static_cast<T>(max_norm);
  return static_cast<double>(coef > T{1} ? T{1} : coef);
}

void scale_gradient(const Variable& parameter, double factor) {
  Kernels& kernels = parameter.runtime().kernels();
  if (Ref<SparseRows>& rows = parameter.state().sparse_grad) {
    const Tensor values = rows->values().clone();
    kernels.scale(values, values, factor);
    rows = rows->with_values(values);
  } else if (const Tensor& grad = parameter.grad(); grad.defined()) {
    kernels.scale(grad, grad, factor);
    grad.storage()->bump_version();
  }
}

/// One event for each wrapper that has some of the gradients; without any, for each that has parameters.
void record_clip(std::span<const Variable> parameters, ClipEvent event) {
  if (parameters.empty()) return;
  Recorder* const recorder = parameters.front().runtime().recorder();
  if (recorder == nullptr) return;
  std::map<std::int32_t, std::vector<NameId>> by_wrapper;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].has_grad()) continue;
    const VariableState& state = parameters[i].state();
    by_wrapper[state.wrapper].push_back(
        state.name != kNoName ? state.name
                              : recorder->names().intern("parameter." + std::to_string(i)));
  }
  if (by_wrapper.empty()) {
    for (const Variable& parameter : parameters) by_wrapper[parameter.state().wrapper];
  }
  event.whole = by_wrapper.size() < 2;
  for (const auto& [wrapper, names] : by_wrapper) {
    event.layout = recorder->names().intern_layout(names);
    recorder->record(event, wrapper);
  }
}

std::string order_text(double norm_type) {
  if (std::isinf(norm_type)) return "inf";
  return norm_type == 1.0 ? "1.0" : "2.0";
}

}  // namespace

double total_norm(std::span<const Variable> parameters, const ClipNorm& options) {
  const std::vector<Tensor> grads = gradients_of(parameters);
  if (grads.empty()) return 0.0;

  const double total = joint_norm(grads, options.norm_type);
  if (options.error_if_nonfinite && !std::isfinite(total)) {
    throw std::runtime_error("The total norm of order " + order_text(options.norm_type) +
                             " for gradients from `parameters` is non-finite, so it cannot be "
                             "clipped. To disable this error and scale the gradients by the "
                             "non-finite norm anyway, set `error_if_nonfinite=False`");
  }
  return total;
}

namespace {

/// `own`: the norm of these gradients where `norm` is one that the program gave, 0 = the same.
void scale_to_limit(std::span<const Variable> parameters,
                    const ClipNorm& options,
                    double norm,
                    double own) {
  const std::vector<Tensor> grads = gradients_of(parameters);
  const bool single = !grads.empty() && grads.front().dtype() == DType::kF32;
  const double factor = single ? coefficient<float>(norm, options.max_norm)
                               : coefficient<double>(norm, options.max_norm);
  for (const Variable& parameter : parameters) scale_gradient(parameter, factor);
  record_clip(parameters,
              {.kind = ClipKind::kNorm,
               .limit = options.max_norm,
               .norm_type = options.norm_type,
               .norm = norm,
               .factor = factor,
               .own = own});
}

}  // namespace

void clip_grads_with_norm(std::span<const Variable> parameters,
                          const ClipNorm& options,
                          double norm) {
  const bool recorded = !parameters.empty() && parameters.front().runtime().recorder() != nullptr;
  const std::vector<Tensor> grads = recorded ? gradients_of(parameters) : std::vector<Tensor>();
  scale_to_limit(
      parameters, options, norm, grads.empty() ? 0.0 : joint_norm(grads, options.norm_type));
}

double clip_grad_norm(std::span<const Variable> parameters, const ClipNorm& options) {
  const double total = total_norm(parameters, options);
  scale_to_limit(parameters, options, total, 0.0);
  return total;
}

void clip_grad_value(std::span<const Variable> parameters, double clip_value) {
  LOCKSTEP_CHECK(
      clip_value >= 0.0,
      fmt::format("gradients are clipped to a range around zero: clip_value is {}", clip_value));
  for (const Variable& parameter : parameters) {
    const Tensor& grad = parameter.grad();
    if (parameter.state().sparse_grad) {
      throw std::runtime_error("clip_grad_value_ does not support sparse gradients");
    }
    if (!grad.defined()) continue;
    grad.runtime().kernels().clamp(grad, grad, clip_value);
    grad.storage()->bump_version();
  }
  record_clip(parameters, {.kind = ClipKind::kValue, .limit = clip_value});
}

}  // namespace lockstep::optim
