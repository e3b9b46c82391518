// Smaller worlds: ranks are left out, and everything that names ranks follows.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/harness/format/toml_document.h"

namespace lockstep::explore {

/// The size of the world a document asks for.
struct WorldSize {
  std::int64_t ranks = 1;
  std::int64_t nodes = 0;  ///< 0: the document counts ranks, not nodes.
  std::int64_t ranks_per_node = 0;
};

WorldSize world_size(const TomlNode& document);

/// The document with these ranks only, renumbered in their order; without nodes. Bugs, faults,
/// overrides and programs of ranks that are gone go with them, as do lists with an entry per rank
/// and deviations of schedules.
///
/// Requires: `kept` ascending, not empty, below the world's size.
TomlNode keep_ranks(const TomlNode& document, const std::vector<std::size_t>& kept);

/// The same for a world of `nodes` nodes with `ranks_per_node` ranks each, counted from the first.
TomlNode keep_nodes(const TomlNode& document, std::int64_t nodes, std::int64_t ranks_per_node);

}  // namespace lockstep::explore
