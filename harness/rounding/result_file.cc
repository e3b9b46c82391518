#include "lockstep/harness/rounding/result_file.h"

#include <cstring>
#include <fmt/format.h>

#include "lockstep/base/disk_files.h"
#include "lockstep/data/npy.h"

namespace lockstep {

namespace {

template <typename Number>
std::string packed(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(Number), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<Number>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Number), &value, sizeof(Number));
  }
  return bytes;
}

Result<std::vector<StoredTensor>> read_array(const std::string& path) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.error();
  const Result<data::NpyArray> array = data::parse_npy(bytes.value(), path);
  if (!array.ok()) return array.error();
  StoredTensor tensor{.name = "array"};
  tensor.sizes = {array.value().rows, array.value().columns};
  if (array.value().type == "<f4") {
    tensor.type = ElementType::kF32;
    tensor.bytes = packed<float>(array.value().values);
  } else if (array.value().type == "<f8") {
    tensor.type = ElementType::kF64;
    tensor.bytes = packed<double>(array.value().values);
  } else {
    return Error{fmt::format("is an array of {}: nothing rounds in it", array.value().type), path};
  }
  return std::vector<StoredTensor>{std::move(tensor)};
}

}  // namespace

Result<std::vector<StoredTensor>> read_results(const std::string& path) {
  if (path.ends_with(".npy")) return read_array(path);
  Result<StateFile> state = read_state(path);
  if (!state.ok()) return state.error();
  return std::move(state.value().tensors);
}

}  // namespace lockstep
