// Optimizers as words: "adam f32 lr=0.1 amsgrad=1", see tests/golden/make_optim.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"

#include "tests/golden/golden_bits.h"

namespace lockstep::optim {

/// The value of "key=value" among the arguments, or what it is by default.
inline double option(const golden::Case& one, const std::string& key, double otherwise) {
  for (const std::string& word : one.arguments) {
    if (word.starts_with(key + "=")) return parse_double(word.substr(key.size() + 1)).value();
  }
  return otherwise;
}

/// Of Adam or AdamW. What a case leaves out has the library's default.
template <typename Options = AdamOptions>
Options adam_options(const golden::Case& one) {
  return {.lr = option(one, "lr", 1e-3),
          .beta1 = option(one, "beta1", 0.9),
          .beta2 = option(one, "beta2", 0.999),
          .eps = option(one, "eps", 1e-8),
          .weight_decay = option(one, "weight_decay", Options().weight_decay),
          .amsgrad = option(one, "amsgrad", 0) != 0,
          .maximize = option(one, "maximize", 0) != 0,
          .compat = option(one, "lerp", 0) != 0 ? Compat::kTorch2 : Compat::kTorch1};
}

inline SgdOptions sgd_options(const golden::Case& one) {
  return {.lr = option(one, "lr", 1e-3),
          .momentum = option(one, "momentum", 0),
          .dampening = option(one, "dampening", 0),
          .weight_decay = option(one, "weight_decay", 0),
          .nesterov = option(one, "nesterov", 0) != 0,
          .maximize = option(one, "maximize", 0) != 0};
}

inline std::unique_ptr<Optimizer> make_optimizer(const golden::Case& one,
                                                 const Variable& parameter) {
  if (one.kind == "adam") return std::make_unique<Adam>(std::vector{parameter}, adam_options(one));
  if (one.kind == "adamw") {
    return std::make_unique<AdamW>(std::vector{parameter}, adam_options<AdamWOptions>(one));
  }
  if (one.kind == "sgd") return std::make_unique<Sgd>(std::vector{parameter}, sgd_options(one));
  if (one.kind == "adagrad") {
    const AdagradOptions options{
        .lr = option(one, "lr", 1e-2),
        .lr_decay = option(one, "lr_decay", 0),
        .weight_decay = option(one, "weight_decay", 0),
        .initial_accumulator_value = option(one, "initial_accumulator_value", 0),
        .eps = option(one, "eps", 1e-10),
        .maximize = option(one, "maximize", 0) != 0};
    return std::make_unique<Adagrad>(std::vector{parameter}, options);
  }
  const RmspropOptions options{
      .lr = option(one, "lr", 1e-2),
      .alpha = option(one, "alpha", 0.99),
      .eps = option(one, "eps", 1e-8),
      .weight_decay = option(one, "weight_decay", 0),
      .momentum = option(one, "momentum", 0),
      .centered = option(one, "centered", 0) != 0,
      .maximize = option(one, "maximize", 0) != 0,
      .compat = option(one, "lerp", 0) != 0 ? Compat::kTorch2 : Compat::kTorch1};
  return std::make_unique<Rmsprop>(std::vector{parameter}, options);
}

}  // namespace lockstep::optim
