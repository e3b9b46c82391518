#include "lockstep/harness/rounding/result_file.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "lockstep/base/check.h"
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
  tensor.sizes = {array.value().rows};
  if (array.value().columns != 1) tensor.sizes.push_back(array.value().columns);
  const auto is = [&](std::string_view type) { return array.value().type == type; };
  const std::vector<double>& values = array.value().values;
  if (is("<f4")) {
    tensor.type = ElementType::kF32;
    tensor.bytes = packed<float>(values);
  } else if (is("<f8")) {
    tensor.type = ElementType::kF64;
    tensor.bytes = packed<double>(values);
  } else if (is("<i4")) {
    tensor.type = ElementType::kI32;
    tensor.bytes = packed<std::int32_t>(values);
  } else if (is("<i8")) {
    tensor.type = ElementType::kI64;
    tensor.bytes = packed<std::int64_t>(values);
  } else {
    LOCKSTEP_CHECK(is("|u1"), "parse_npy reads five types");
    tensor.type = ElementType::kU8;
    tensor.bytes = packed<std::uint8_t>(values);
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
