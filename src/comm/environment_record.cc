#include "lockstep/comm/environment_record.h"

#include <optional>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

/// A number the launcher has set, or nothing.
std::optional<std::int64_t> number_in(const Host& host, std::string_view variable) {
  const std::optional<std::string> text = host.environment(variable);
  return text ? parse_int(*text) : std::nullopt;
}

}  // namespace

void record_environment(const RankContext& context) {
  Recorder* const recorder = context.runtime().recorder();
  if (recorder == nullptr) return;
  const Host& host = context.host();
  const std::int64_t world = number_in(host, "WORLD_SIZE").value_or(context.world_size());
  const std::int64_t local_rank = number_in(host, "LOCAL_RANK").value_or(-1);
  const std::optional<std::string> node = host.environment("GROUP_RANK");
  const std::optional<std::string> device = host.environment("LOCKSTEP_DEVICE");
  recorder->record(EnvironmentEvent{.world = static_cast<std::int32_t>(world),
                                    .local_rank = static_cast<std::int32_t>(local_rank),
                                    .node = recorder->names().intern(node.value_or("")),
                                    .device = recorder->names().intern(device.value_or(""))});
}

}  // namespace lockstep
