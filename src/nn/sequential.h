#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// Modules one after the other, named "0", "1", ... Owns them.
///
///   Sequential mlp(runtime);
///   mlp.append<Linear>(16, 32);
///   mlp.append<ReLU>();
///   mlp.append<Linear>(32, 1);
///
/// Source: torch.nn.Sequential.
class Sequential final : public Module {
 public:
  using Module::Module;

  /// Constructs M(runtime, args...) as the last module.
  template <typename M, typename... Args>
  M& append(Args&&... args) {
    auto module = std::make_unique<M>(runtime(), std::forward<Args>(args)...);
    M& added = *module;
    push(std::move(module));
    return added;
  }

  /// Appends a module that is made already.
  void push(std::unique_ptr<Module> module);

  std::size_t size() const { return modules_.size(); }

  /// From now on each module is computed again in the backward (checkpoint.h). Reentrant: except
  /// where its input requires no gradient, which would cut off its parameters.
  void checkpoint_modules(bool use_reentrant);

  Variable forward(const Variable& x) override;

 private:
  bool is_checkpointed(const Variable& input) const {
    return checkpointed_ && (!use_reentrant_ || input.requires_grad());
  }

  std::vector<std::unique_ptr<Module>> modules_;
  bool checkpointed_ = false;
  bool use_reentrant_ = true;
};

}  // namespace lockstep::nn
