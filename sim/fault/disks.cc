#include "lockstep/sim/fault/disks.h"

namespace lockstep::sim {

std::optional<DiskScope> parse_disk_scope(std::string_view name) {
  if (name == "shared") return DiskScope::kShared;
  if (name == "node") return DiskScope::kNode;
  return std::nullopt;
}

}  // namespace lockstep::sim
