// Answers the lines of make_draws.py that initialise a parameter.
#pragma once

#include <string>

#include "lockstep/nn/init.h"

#include "tests/golden/drawn.h"

namespace lockstep::golden {

inline void initialise(const Case& one, const Tensor& tensor, Generator& generator) {
  namespace init = nn::init;
  const double argument = real(one, 2);
  const bool out = one.kind.ends_with("_out");
  const init::Kaiming kaiming{.gain = init::leaky_relu_gain(argument),
                              .mode = out ? init::FanMode::kOut : init::FanMode::kIn};
  if (one.kind == "xavier_uniform") init::xavier_uniform(tensor, generator, argument);
  if (one.kind == "xavier_normal") init::xavier_normal(tensor, generator, argument);
  if (one.kind.starts_with("kaiming_uniform")) init::kaiming_uniform(tensor, generator, kaiming);
  if (one.kind.starts_with("kaiming_normal")) init::kaiming_normal(tensor, generator, kaiming);
  if (one.kind == "trunc_normal") {
    init::trunc_normal(
        tensor, generator, {.std = argument, .from = -2 * argument, .to = 2 * argument});
  }
}

/// What a line of a named scheme must answer.
inline std::string initialised(const Case& one, Runtime& runtime) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 3; i < one.arguments.size(); ++i) sizes.push_back(one.integer(i));
  const bool wide = one.arguments.at(0) == "f64";
  const Tensor tensor = Tensor::empty(runtime, Shape(sizes), wide ? DType::kF64 : DType::kF32);
  Generator generator(seed_of(one));
  initialise(one, tensor, generator);
  if (wide) return bit_text(std::span<const double>(tensor.span<double>()));
  return bit_text(std::span<const float>(tensor.span<float>()));
}

}  // namespace lockstep::golden
