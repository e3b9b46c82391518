// The names that a pickle of torch.save may ask for: a closed list.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/formats/state_file.h"

namespace lockstep::detail {

/// What a pickle may name.
enum class PickleCall : std::uint8_t {
  kOrderedDict,
  kSize,
  kTensor,       ///< (storage, offset, sizes, strides, ...)
  kTypedTensor,  ///< (storage, offset, sizes, strides, requires_grad, hooks, dtype, ...)
  kParameter,    ///< (tensor, ...)
  kStorage,      ///< A class of storages with an element type.
  kBytes,        ///< The class of storages without.
  kElementType,  ///< A dtype.
};

struct PickleName {
  std::string_view name;
  PickleCall what = PickleCall::kOrderedDict;
  ElementType type = ElementType::kU8;
};

/// The entry of "torch._utils._rebuild_tensor_v2"; null for a name that is not in the list.
const PickleName* find_pickle_name(std::string_view name);
/// The class of storages of a type; empty where PyTorch has none.
std::string_view storage_class_of(ElementType type);

}  // namespace lockstep::detail
