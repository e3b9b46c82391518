#include "lockstep/nn/linear.h"

#include "lockstep/functional/functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

Linear::Linear(Runtime& runtime, std::int64_t in, std::int64_t out, LinearOptions options)
    : Module(runtime) {
  weight_ = register_parameter("weight", Tensor::zeros(runtime, {out, in}, options.dtype));
  if (options.bias) {
    bias_ = register_parameter("bias", Tensor::zeros(runtime, {out}, options.dtype));
  }
}

Linear::Linear(Runtime& runtime,
               std::int64_t in,
               std::int64_t out,
               Generator& generator,
               LinearOptions options)
    : Linear(runtime, in, out, options) {
  reset_parameters(generator);
}

Variable Linear::forward(const Variable& x) { return linear(x, weight_, bias_); }

void Linear::reset_own_parameters(Generator& generator) {
  init::linear_weight(weight_.data(), generator);
  if (bias_.defined()) init::linear_bias(bias_.data(), generator, weight_.shape()[1]);
}

}  // namespace lockstep::nn
