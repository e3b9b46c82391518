#include "lockstep/nn/sequential.h"

#include <string>

namespace lockstep::nn {

void Sequential::push(std::unique_ptr<Module> module) {
  register_module(std::to_string(modules_.size()), *module);
  modules_.push_back(std::move(module));
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (const auto& module : modules_) y = module->forward(y);
  return y;
}

}  // namespace lockstep::nn
