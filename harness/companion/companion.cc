#include "lockstep/harness/companion/companion.h"

#include "lockstep/train/rank_program.h"

namespace lockstep {
namespace {

/// Names do not depend on values, and drawing those of a large model takes time.
ModelSpec without_draws(const ModelSpec& spec) {
  ModelSpec plain = spec;
  plain.init = {};
  plain.init.kind = InitKind::kConstant;
  return plain;
}

}  // namespace

std::shared_ptr<const void> LoneHost::MapMemo::get(
    std::string_view key, const std::function<std::shared_ptr<const void>()>& make) {
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  return values_.emplace(std::string(key), make()).first->second;
}

Companion::Companion(bool exact)
    : cpu_(make_cpu_kernels()),
      runtime_(pool_, *cpu_, host_),
      group_(make_loopback_group(runtime_)) {
  if (exact) cpu_->observe(&exact_);
}

std::vector<TensorInfo> tensors_of(const ModelSpec& spec) {
  Companion companion(false);
  const auto model = build_model(without_draws(spec), companion.runtime(), 0);
  std::vector<TensorInfo> tensors;
  for (const auto& list : {model->named_parameters(), model->named_buffers()}) {
    for (const NamedVariable& named : list) {
      const Tensor& data = named.variable.data();
      tensors.push_back({named.name, data.n_elems(), data.dtype()});
    }
  }
  return tensors;
}

std::int64_t n_parameters(const ModelSpec& spec) {
  Companion companion(false);
  const auto model = build_model(without_draws(spec), companion.runtime(), 0);
  std::int64_t n = 0;
  for (const NamedVariable& named : model->named_parameters()) n += named.variable.data().n_elems();
  return n;
}

}  // namespace lockstep
