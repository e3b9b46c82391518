#include "lockstep/train/state_record.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

bool is_ignored(std::span<const std::string> ignored, const std::string& name) {
  return std::find(ignored.begin(), ignored.end(), name) != ignored.end();
}

void describe(const NamedVariable& named, std::string_view manner, std::string& text) {
  const Tensor& data = named.variable.data();
  text += named.name;
  for (const std::int64_t size : data.shape().sizes()) text += ' ' + std::to_string(size);
  text += ' ' + std::string(name_of(data.dtype()));
  text += named.variable.requires_grad() ? " trained" : " frozen";
  text += manner;
  text += '\n';
}

std::uint64_t schema_of(const nn::Module& model, std::span<const std::string> ignored) {
  std::string text;
  for (const NamedVariable& named : model.named_parameters()) {
    describe(named, is_ignored(ignored, named.name) ? " ignored" : "", text);
  }
  for (const NamedVariable& named : model.named_buffers()) describe(named, " buffer", text);
  return sm64(text.data(), static_cast<std::int64_t>(text.size()), DType::kU8);
}

/// A number the launcher has set, or nothing.
std::optional<std::int64_t> number_in(const Host& host, std::string_view variable) {
  const std::optional<std::string> text = host.environment(variable);
  return text ? parse_int(*text) : std::nullopt;
}

}  // namespace

void record_environment(const nn::Module& model,
                        std::span<const std::string> ignored,
                        const RankContext& context) {
  Recorder* recorder = context.runtime().recorder();
  if (recorder == nullptr) return;
  const Host& host = context.host();
  const std::int64_t world = number_in(host, "WORLD_SIZE").value_or(context.world_size());
  const std::int64_t local_rank = number_in(host, "LOCAL_RANK").value_or(-1);
  const std::optional<std::string> node = host.environment("GROUP_RANK");
  const std::optional<std::string> device = host.environment("LOCKSTEP_DEVICE");
  recorder->record(EnvironmentEvent{.world = static_cast<std::int32_t>(world),
                                    .local_rank = static_cast<std::int32_t>(local_rank),
                                    .node = recorder->names().intern(node.value_or("")),
                                    .device = recorder->names().intern(device.value_or("")),
                                    .schema = schema_of(model, ignored)});
}

void record_buffers(const nn::Module& model,
                    std::span<const std::string> ignored,
                    const RankContext& context,
                    StatePoint point,
                    std::int32_t wrapper) {
  Recorder* recorder = context.runtime().recorder();
  if (recorder == nullptr) return;
  std::vector<NameId> names;
  std::vector<Tensor> tensors;
  for (const NamedVariable& named : model.named_buffers()) {
    if (is_ignored(ignored, named.name)) continue;
    names.push_back(recorder->names().intern(named.name));
    tensors.push_back(named.variable.data());
  }
  if (tensors.empty()) return;
  recorder->record_states(
      StateKind::kBuffer, point, recorder->names().intern_layout(names), tensors, wrapper);
}

}  // namespace lockstep
