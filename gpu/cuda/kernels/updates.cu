// Optimizers. Scalars are formed in double on the host and rounded once, as PyTorch's are.
#include <cmath>

#include "lockstep/gpu/cuda/detail/operands.cuh"
#include "lockstep/gpu/cuda/ops/updates.cuh"

namespace lockstep::cuda {

namespace {

/// What an update does to the gradient before all else.
struct Turned {
  double decay = 0.0;
  bool maximize = false;
};

template <typename T>
Gradient<T> gradient_of(const T* grad, const T* param, const Turned& turned) {
  return {grad, param, static_cast<T>(turned.decay), turned.decay != 0.0, turned.maximize};
}

template <typename T>
MovingMean<T> mean_of(double decay, bool lerp) {
  return {static_cast<T>(1.0 - decay), static_cast<T>(decay), lerp};
}

template <typename T>
MovingSquare<T> square_of(double decay) {
  return {static_cast<T>(1.0 - decay), static_cast<T>(decay)};
}

void agree_with(const Tensor& param, std::span<const Tensor> kept) {
  for (const Tensor& list : kept) agreed_elems(param, list);
}

}  // namespace

void CudaKernels::sgd(const Tensor& param,
                      const Tensor& grad,
                      const Tensor& momentum_buffer,
                      const SgdUpdate& update) {
  if (is_narrow(param.dtype())) return host_->sgd(param, grad, momentum_buffer, update);
  const std::int64_t n = agreed_elems(param, grad);
  const bool with_momentum = update.momentum != 0.0;
  if (with_momentum) agreed_elems(param, momentum_buffer);
  for_float(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = at<T>(param);
    executor_->run(
        n,
        Sgd<T>{.param = p,
               .buffer = with_momentum ? at<T>(momentum_buffer) : nullptr,
               .gradient = gradient_of(at<T>(grad), p, {update.weight_decay, update.maximize}),
               .minus_lr = static_cast<T>(-update.lr),
               .momentum = static_cast<T>(update.momentum),
               .fresh = static_cast<T>(1.0 - update.dampening),
               .first_step = update.first_step,
               .nesterov = update.nesterov});
  });
}

void CudaKernels::adam(const Tensor& param,
                       const Tensor& grad,
                       std::span<const Tensor> moments,
                       const AdamUpdate& update) {
  if (is_narrow(param.dtype())) return host_->adam(param, grad, moments, update);
  const std::int64_t n = agreed_elems(param, grad);
  LOCKSTEP_CHECK(moments.size() == (update.amsgrad ? 3U : 2U), "Adam has two moments, or three");
  agree_with(param, moments);
  const double correction1 = 1.0 - std::pow(update.beta1, update.step);
  const double correction2 = 1.0 - std::pow(update.beta2, update.step);
  const Turned turned{update.decoupled ? 0.0 : update.weight_decay, update.maximize};
  for_float(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = at<T>(param);
    executor_->run(n,
                   Adam<T>{.param = p,
                           .mean = at<T>(moments[0]),
                           .square = at<T>(moments[1]),
                           .largest = at_or_null<T>(moments, 2),
                           .gradient = gradient_of(at<T>(grad), p, turned),
                           .first = mean_of<T>(update.beta1, update.lerp),
                           .second = square_of<T>(update.beta2),
                           .shrink = static_cast<T>(1.0 - update.lr * update.weight_decay),
                           .minus_step_size = static_cast<T>(-(update.lr / correction1)),
                           .root_correction = static_cast<T>(std::sqrt(correction2)),
                           .eps = static_cast<T>(update.eps),
                           .decoupled = update.decoupled});
  });
}

void CudaKernels::adagrad(const Tensor& param,
                          const Tensor& grad,
                          const Tensor& sum,
                          const AdagradUpdate& update) {
  if (is_narrow(param.dtype())) return host_->adagrad(param, grad, sum, update);
  const std::int64_t n = agreed_elems(param, grad);
  agreed_elems(param, sum);
  const double lr = update.lr / (1.0 + (update.step - 1.0) * update.lr_decay);
  for_float(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = at<T>(param);
    executor_->run(
        n,
        Adagrad<T>{.param = p,
                   .squares = at<T>(sum),
                   .gradient = gradient_of(at<T>(grad), p, {update.weight_decay, update.maximize}),
                   .minus_lr = static_cast<T>(-lr),
                   .eps = static_cast<T>(update.eps)});
  });
}

void CudaKernels::rmsprop(const Tensor& param,
                          const Tensor& grad,
                          std::span<const Tensor> averages,
                          const RmspropUpdate& update) {
  if (is_narrow(param.dtype())) return host_->rmsprop(param, grad, averages, update);
  const std::int64_t n = agreed_elems(param, grad);
  const bool with_momentum = update.momentum > 0.0;
  const std::size_t wanted = 1U + (with_momentum ? 1U : 0U) + (update.centered ? 1U : 0U);
  LOCKSTEP_CHECK(averages.size() == wanted, "RMSprop keeps one average for each of its options");
  agree_with(param, averages);
  for_float(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = at<T>(param);
    executor_->run(
        n,
        Rmsprop<T>{.param = p,
                   .square = at<T>(averages[0]),
                   .buffer = with_momentum ? at<T>(averages[1]) : nullptr,
                   .mean = update.centered ? at<T>(averages[with_momentum ? 2 : 1]) : nullptr,
                   .gradient = gradient_of(at<T>(grad), p, {update.weight_decay, update.maximize}),
                   .first = mean_of<T>(update.alpha, update.lerp),
                   .second = square_of<T>(update.alpha),
                   .minus_lr = static_cast<T>(-update.lr),
                   .momentum = static_cast<T>(update.momentum),
                   .eps = static_cast<T>(update.eps)});
  });
}

}  // namespace lockstep::cuda
