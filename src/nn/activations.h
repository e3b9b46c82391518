// Activation functions as modules, for Sequential.
#pragma once

#include <string>

#include "lockstep/functional/functions.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// max(x, 0).
class ReLU final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return relu(x); }

 private:
  std::string description() const override { return "ReLU()"; }
};

/// The hyperbolic tangent of each element.
class Tanh final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return tanh(x); }

 private:
  std::string description() const override { return "Tanh()"; }
};

/// 1 / (1 + exp(-x)) of each element.
class Sigmoid final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return sigmoid(x); }

 private:
  std::string description() const override { return "Sigmoid()"; }
};

}  // namespace lockstep::nn
