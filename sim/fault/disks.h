// The disks of a job: one that all nodes share, or one on each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "lockstep/base/enum_names.h"
#include "lockstep/sim/fault/virtual_disk.h"

namespace lockstep::sim {

/// Who sees the files that a rank writes.
enum class DiskScope : std::uint8_t {
  kShared,  ///< All ranks: a network file system.
  kNode,    ///< The ranks of its node: a disk of the machine.
};

/// What the nodes of a job keep over all its attempts. A node that joins later finds its disk empty.
class Disks {
 public:
  /// Of a shared disk the node is always 0.
  VirtualDisk& of_node(std::int32_t node) { return by_node_[node]; }

  /// All that are in use, by node.
  std::map<std::int32_t, VirtualDisk>& by_node() { return by_node_; }

 private:
  std::map<std::int32_t, VirtualDisk> by_node_;  // Its elements never move.
};

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<2> kEnumNames<sim::DiskScope> = {"shared", "node"};

}  // namespace lockstep
