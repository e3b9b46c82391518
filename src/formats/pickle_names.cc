#include "lockstep/formats/detail/pickle_names.h"

#include <array>

namespace lockstep::detail {

namespace {

constexpr std::array<PickleName, 43> kNames = {{
    {"collections.OrderedDict", PickleCall::kOrderedDict},
    {"torch.Size", PickleCall::kSize},
    {"torch._utils._rebuild_tensor", PickleCall::kTensor},
    {"torch._utils._rebuild_tensor_v2", PickleCall::kTensor},
    {"torch._utils._rebuild_tensor_v3", PickleCall::kTypedTensor},
    {"torch._utils._rebuild_parameter", PickleCall::kParameter},
    {"torch.storage.UntypedStorage", PickleCall::kBytes},
    {"torch.DoubleStorage", PickleCall::kStorage, ElementType::kF64},
    {"torch.FloatStorage", PickleCall::kStorage, ElementType::kF32},
    {"torch.HalfStorage", PickleCall::kStorage, ElementType::kF16},
    {"torch.BFloat16Storage", PickleCall::kStorage, ElementType::kBF16},
    {"torch.LongStorage", PickleCall::kStorage, ElementType::kI64},
    {"torch.IntStorage", PickleCall::kStorage, ElementType::kI32},
    {"torch.ShortStorage", PickleCall::kStorage, ElementType::kI16},
    {"torch.CharStorage", PickleCall::kStorage, ElementType::kI8},
    {"torch.ByteStorage", PickleCall::kStorage, ElementType::kU8},
    {"torch.BoolStorage", PickleCall::kStorage, ElementType::kBool},
    {"torch.ComplexFloatStorage", PickleCall::kStorage, ElementType::kC64},
    {"torch.ComplexDoubleStorage", PickleCall::kStorage, ElementType::kC128},
    {"torch.float64", PickleCall::kElementType, ElementType::kF64},
    {"torch.double", PickleCall::kElementType, ElementType::kF64},
    {"torch.float32", PickleCall::kElementType, ElementType::kF32},
    {"torch.float", PickleCall::kElementType, ElementType::kF32},
    {"torch.float16", PickleCall::kElementType, ElementType::kF16},
    {"torch.half", PickleCall::kElementType, ElementType::kF16},
    {"torch.bfloat16", PickleCall::kElementType, ElementType::kBF16},
    {"torch.float8_e4m3fn", PickleCall::kElementType, ElementType::kF8E4M3},
    {"torch.float8_e5m2", PickleCall::kElementType, ElementType::kF8E5M2},
    {"torch.float8_e8m0fnu", PickleCall::kElementType, ElementType::kF8E8M0},
    {"torch.int64", PickleCall::kElementType, ElementType::kI64},
    {"torch.long", PickleCall::kElementType, ElementType::kI64},
    {"torch.int32", PickleCall::kElementType, ElementType::kI32},
    {"torch.int", PickleCall::kElementType, ElementType::kI32},
    {"torch.int16", PickleCall::kElementType, ElementType::kI16},
    {"torch.short", PickleCall::kElementType, ElementType::kI16},
    {"torch.int8", PickleCall::kElementType, ElementType::kI8},
    {"torch.uint64", PickleCall::kElementType, ElementType::kU64},
    {"torch.uint32", PickleCall::kElementType, ElementType::kU32},
    {"torch.uint16", PickleCall::kElementType, ElementType::kU16},
    {"torch.uint8", PickleCall::kElementType, ElementType::kU8},
    {"torch.bool", PickleCall::kElementType, ElementType::kBool},
    {"torch.complex64", PickleCall::kElementType, ElementType::kC64},
    {"torch.complex128", PickleCall::kElementType, ElementType::kC128},
}};

}  // namespace

const PickleName* find_pickle_name(std::string_view name) {
  for (const PickleName& known : kNames) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string_view storage_class_of(ElementType type) {
  for (const PickleName& known : kNames) {
    if (known.what == PickleCall::kStorage && known.type == type) return known.name;
  }
  return {};
}

}  // namespace lockstep::detail
