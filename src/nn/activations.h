// Activation functions as modules, for Sequential.
#pragma once

#include "lockstep/functional/functions.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// max(x, 0).
class ReLU final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return relu(x); }
};

class Tanh final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return tanh(x); }
};

class Sigmoid final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override { return sigmoid(x); }
};

}  // namespace lockstep::nn
