#include "lockstep/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/formats/detail/safetensors_layout.h"

namespace lockstep {

namespace {

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr std::array<DTypeName, 9> kDTypes = {{{DType::kF32, "F32"},
                                               {DType::kF64, "F64"},
                                               {DType::kF16, "F16"},
                                               {DType::kBF16, "BF16"},
                                               {DType::kI8, "I8"},
                                               {DType::kU8, "U8"},
                                               {DType::kI32, "I32"},
                                               {DType::kI64, "I64"},
                                               {DType::kBool, "BOOL"}}};

std::string_view file_name_of(DType dtype) {
  return std::find_if(
             kDTypes.begin(), kDTypes.end(), [&](const DTypeName& d) { return d.dtype == dtype; })
      ->name;
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace

const Tensor* SafeTensors::find(std::string_view name) const {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

std::string render_safetensors(const SafeTensors& contents) {
  detail::SafetensorsLayout layout;
  layout.metadata = contents.metadata;
  std::int64_t at = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    const std::span<const std::int64_t> sizes = tensor.shape().sizes();
    layout.entries.push_back({name,
                              std::string(file_name_of(tensor.dtype())),
                              {sizes.begin(), sizes.end()},
                              at,
                              at + tensor.n_bytes()});
    at += tensor.n_bytes();
  }
  std::string bytes = detail::render_safetensors_header(layout);
  for (const auto& [name, tensor] : contents.tensors) {
    bytes.append(static_cast<const char*>(tensor.read_raw()),
                 static_cast<std::size_t>(tensor.n_bytes()));
  }
  return bytes;
}

Result<SafeTensors> parse_safetensors(Runtime& runtime, std::string_view bytes) {
  const auto size = [](std::string_view name) -> std::int64_t {
    const std::optional<DType> dtype = dtype_of(name);
    return dtype ? size_of(*dtype) : 0;
  };
  Result<detail::SafetensorsLayout> layout = detail::read_safetensors_layout(bytes, size);
  if (!layout.ok()) return layout.error();
  SafeTensors contents;
  contents.metadata = std::move(layout.value().metadata);
  for (detail::SafetensorsEntry& entry : layout.value().entries) {
    if (entry.sizes.size() > 4) {
      return Error{"tensor '" + printable(entry.name) + "': more than four dimensions", {}};
    }
    Tensor tensor = Tensor::empty(runtime, Shape(entry.sizes), *dtype_of(entry.dtype));
    if (tensor.n_bytes() > 0) {
      std::memcpy(tensor.write_raw(),
                  layout.value().data.data() + entry.first,
                  static_cast<std::size_t>(tensor.n_bytes()));
    }
    contents.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return contents;
}

}  // namespace lockstep
