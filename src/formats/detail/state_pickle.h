// The pickle in a file of torch.save: where tensors lie, and what stands beside them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/state_file.h"

namespace lockstep::detail {

/// A tensor as a view of a storage. Units: elements.
struct PickledTensor {
  std::string name;
  std::string storage;  ///< Its key: the member "data/KEY" of the archive.
  ElementType type = ElementType::kF32;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
};

struct PickledState {
  std::vector<PickledTensor> tensors = {};
  std::vector<std::pair<std::string, std::string>> values = {};
};

/// Reads such a pickle without executing anything: what it asks for is compared with a closed list.
///
/// Errors: where = "byte N"; a name that is not in the list, an opcode that state dicts do not need,
///     an end too early, dictionaries that hold each other, more than a million entries.
Result<PickledState> read_state_pickle(std::string_view bytes);

/// A pickle of protocol 2: a dictionary of contiguous tensors by name, the nth of which has the storage
/// "n". Only names, types and sizes are read.
std::string render_state_pickle(std::span<const StoredTensor> tensors);

}  // namespace lockstep::detail
