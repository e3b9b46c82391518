#include "lockstep/nn/convolution.h"

#include <fmt/core.h>

#include "lockstep/functional/image_functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

Conv2d::Conv2d(Runtime& runtime, std::int64_t in, std::int64_t out, Conv2dOptions options)
    : Module(runtime), options_(options) {
  const std::int64_t width = options.kernel_width > 0 ? options.kernel_width : options.kernel;
  const Shape filters{out, in, options.kernel, width};
  weight_ = register_parameter("weight", Tensor::zeros(runtime, filters, options.dtype));
  if (options.bias) {
    bias_ = register_parameter("bias", Tensor::zeros(runtime, {out}, options.dtype));
  }
}

Conv2d::Conv2d(Runtime& runtime,
               std::int64_t in,
               std::int64_t out,
               Generator& generator,
               Conv2dOptions options)
    : Conv2d(runtime, in, out, options) {
  reset_parameters(generator);
}

Variable Conv2d::forward(const Variable& x) {
  return conv2d(x, weight_, bias_, {.stride = options_.stride, .padding = options_.padding});
}

void Conv2d::reset_own_parameters(Generator& generator) {
  init::layer_weight(weight_.data(), generator);
  if (bias_.defined()) {
    init::linear_bias(bias_.data(), generator, init::fan_of(weight_.shape()).in);
  }
}

std::string Conv2d::description() const {
  return fmt::format("Conv2d(stride={}, padding={})", options_.stride, options_.padding);
}

}  // namespace lockstep::nn
