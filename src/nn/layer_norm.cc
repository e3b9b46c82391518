#include "lockstep/nn/layer_norm.h"

#include <fmt/core.h>

#include "lockstep/functional/layer_functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

LayerNorm::LayerNorm(Runtime& runtime, std::int64_t width, LayerNormOptions options)
    : Module(runtime), options_(options) {
  weight_ = register_parameter("weight", Tensor::full(runtime, {width}, options.dtype, 1.0));
  bias_ = register_parameter("bias", Tensor::zeros(runtime, {width}, options.dtype));
}

Variable LayerNorm::forward(const Variable& x) {
  return layer_norm(x, weight_, bias_, options_.eps);
}

void LayerNorm::reset_own_parameters(Generator& /*generator*/) {
  init::constant(weight_.data(), 1.0);
  init::constant(bias_.data(), 0.0);
}

std::string LayerNorm::description() const {
  return fmt::format("LayerNorm(eps={})", options_.eps);
}

}  // namespace lockstep::nn
