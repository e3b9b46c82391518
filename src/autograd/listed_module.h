// The modules of a rank, as far as they know what parameters are called.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// What is in the list of a runtime's modules from its construction to its end.
class ListedModule {
 public:
  explicit ListedModule(Runtime& runtime) : owner_(&runtime), older_(runtime.modules()) {
    if (older_ != nullptr) older_->younger_ = this;
    runtime.set_modules(this);
  }

  virtual ~ListedModule() {
    if (older_ != nullptr) older_->younger_ = younger_;
    if (younger_ != nullptr) {
      younger_->older_ = older_;
    } else {
      owner_->set_modules(older_);
    }
  }

  ListedModule(const ListedModule&) = delete;
  ListedModule& operator=(const ListedModule&) = delete;
  ListedModule(ListedModule&&) = delete;
  ListedModule& operator=(ListedModule&&) = delete;

  /// The one that was made before it and is alive, or null.
  ListedModule* older() const { return older_; }

  /// Qualified names ("trunk.weight"), depth first; of a parameter with several names the first, or
  /// all of them without `remove_duplicate`.
  virtual std::vector<NamedVariable> named_parameters(bool remove_duplicate = true) const = 0;

  /// Its buffers, likewise.
  virtual std::vector<NamedVariable> named_buffers() const { return {}; }

 private:
  Runtime* owner_;
  ListedModule* older_;
  ListedModule* younger_ = nullptr;
};

/// What the smallest module that has all of the parameters has; of a module and its only part, the module.
/// Nothing, if no module has all of them.
std::vector<NamedVariable> smallest_list_of(std::span<const Variable> parameters);

/// The buffers of that module.
std::vector<NamedVariable> buffers_beside(std::span<const Variable> parameters);

/// What parameters are called that no wrapper has named: as in the smallest module that has all of them
/// ("first.weight"; of a module and its only part, as in the module) or, where none has, by their places.
std::vector<std::string> names_of(std::span<const Variable> parameters);

/// "parameter.0", "parameter.1", ...
std::vector<std::string> places_of(std::span<const Variable> parameters);

}  // namespace lockstep
