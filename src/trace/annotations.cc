#include "lockstep/trace/annotations.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

void Annotations::epoch(const EpochAnnotation& words) const {
  if (!on()) return;
  if (is_train_split(words.split)) recorder_->set_epoch(static_cast<std::int32_t>(words.epoch));
  record(EpochEvent{.split = name(words.split),
                    .sampler = name(words.sampler),
                    .generator_key = words.generator_key,
                    .order_digest = words.order_digest,
                    .dataset_size = words.dataset_size,
                    .n_replicas = words.n_replicas,
                    .per_rank = words.per_rank,
                    .shuffle = words.shuffle,
                    .drop_last = words.drop_last,
                    .pads = words.pads});
}

void Annotations::samples(std::span<const std::int64_t> ids, std::string_view split) const {
  if (!on() || !recorder_->options().samples) return;
  record(SampleEvent{.split = name(split), .ids = ids});
}

void Annotations::batch(const BatchAnnotation& words) const {
  if (!on()) return;
  record(BatchEvent{.n_samples = words.n_samples,
                    .n_tokens = words.n_tokens,
                    .denominator = words.denominator,
                    .declared = name(words.declared)});
}

void Annotations::metric(std::string_view metric_name, const MetricAnnotation& words) const {
  if (!on()) return;
  record(MetricEvent{.name = name(metric_name),
                     .value = words.value,
                     .numerator = words.numerator,
                     .denominator = words.denominator,
                     .parts = words.parts,
                     .formula = words.formula});
}

void Annotations::decision(std::string_view decision_name, std::int64_t value) const {
  if (on()) record(DecisionEvent{.name = name(decision_name), .value = value});
}

void Annotations::record_stream(std::string_view stream_name,
                                StreamScope scope,
                                std::int64_t worker,
                                std::span<const std::uint8_t> state) const {
  record(
      RngEvent{.stream = name(stream_name),
               .shared = scope == StreamScope::kShared,
               .worker = worker,
               .state = sm64(state.data(), static_cast<std::int64_t>(state.size()), DType::kU8)});
}

void Annotations::replicated(std::string_view set_name, std::span<const Tensor> tensors) const {
  if (!on()) return;
  const std::int32_t wrapper = recorder_->current_wrapper();
  recorder_->keep_auxiliary(set_name, tensors, wrapper);
}

void Annotations::replicated(std::string_view set_name,
                             std::initializer_list<Tensor> tensors) const {
  replicated(set_name, std::span<const Tensor>(tensors.begin(), tensors.size()));
}

void Annotations::buffers(std::initializer_list<std::string_view> names,
                          BufferPolicy policy) const {
  if (!on()) return;
  std::vector<NameId> list;
  for (const std::string_view buffer : names) list.push_back(name(buffer));
  record(BufferPolicyEvent{.layout = recorder_->names().intern_layout(list), .policy = policy});
}

void Annotations::configuration(std::string_view subject, std::string_view bytes) const {
  configuration_digest(subject,
                       sm64(bytes.data(), static_cast<std::int64_t>(bytes.size()), DType::kU8));
}

void Annotations::configuration_digest(std::string_view subject, std::uint64_t digest) const {
  if (on()) record(ConfigurationEvent{.name = name(subject), .digest = digest});
}

void Annotations::snapshot(SnapshotAction action,
                           std::int64_t step,
                           std::string_view detail,
                           std::uint64_t digest) const {
  if (!on()) return;
  const bool is_path = action == SnapshotAction::kPart || action == SnapshotAction::kSave ||
                       action == SnapshotAction::kRead;
  const auto disk =
      is_path && host_ != nullptr ? host_->environment("LOCKSTEP_DISK") : std::nullopt;
  const std::string place = disk ? *disk + ":" + std::string(detail) : std::string(detail);
  record(SnapshotEvent{.action = action, .step = step, .detail = name(place), .digest = digest});
}

void Annotations::phase(PhaseKind kind) const {
  if (on()) record(PhaseEvent{.kind = kind});
}

void Annotations::log(std::string_view text) const {
  if (on()) record(LogEvent{.text = name(text)});
}

}  // namespace lockstep
