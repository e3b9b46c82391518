#include "lockstep/nn/sequential.h"

#include <span>
#include <string>

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/base/check.h"

namespace lockstep::nn {

void Sequential::push(std::unique_ptr<Module> module) {
  LOCKSTEP_CHECK(module != nullptr,
                 "module " + std::to_string(modules_.size()) + " of a Sequential is null");
  register_module(std::to_string(modules_.size()), *module);
  modules_.push_back(std::move(module));
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (const auto& module : modules_) {
    if (!is_checkpointed(y)) {
      y = module->forward(y);
      continue;
    }
    y = checkpoint(
        [&module = *module](std::span<const Variable> in) { return module.forward(in[0]); },
        {y},
        {.use_reentrant = use_reentrant_});
  }
  return y;
}

void Sequential::checkpoint_modules(bool use_reentrant) {
  checkpointed_ = true;
  use_reentrant_ = use_reentrant;
}

}  // namespace lockstep::nn
