#include "lockstep/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/formats/json_text.h"

namespace lockstep {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr double kMostElements = 1e15;  // Sizes next to a zero could overflow their product.

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

void append_header(JsonText& header, const SafeTensors& contents) {
  header.open_object();
  if (!contents.metadata.empty()) {
    header.key("__metadata__").open_object();
    for (const auto& [name, value] : contents.metadata) header.key(name).text(value);
    header.close_object();
  }
  std::int64_t at = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    header.key(name).open_object();
    header.key("dtype").text(file_name_of(tensor.dtype()));
    header.key("shape").open_array();
    for (const std::int64_t size : tensor.shape().sizes()) header.integer(size);
    header.close_array();
    header.key("data_offsets").open_array().integer(at).integer(at + tensor.n_bytes());
    header.close_array().close_object();
    at += tensor.n_bytes();
  }
  header.close_object();
}

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> sizes;
  std::int64_t first = 0;
  std::int64_t end = 0;
};

Error bad_tensor(const std::string& name, const std::string& what) {
  return {"tensor '" + name + "': " + what, {}};
}

Result<std::vector<std::int64_t>> integers_of(const Json& list) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> values;
  if (!list.is_array()) return Error{"a list of integers is missing", {}};
  for (const Json& value : list) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
      return Error{"sizes and offsets must be integers from 0", {}};
    }
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

Result<Entry> entry_of(const std::string& name, const Json& node) {
  if (!node.is_object() || !node.contains("dtype") || !node.contains("shape") ||
      !node.contains("data_offsets") || !node["dtype"].is_string()) {
    return bad_tensor(name, "dtype, shape and data_offsets are needed");
  }
  const std::optional<DType> dtype = dtype_of(node["dtype"].get<std::string>());
  if (!dtype) return bad_tensor(name, "unknown dtype " + node["dtype"].get<std::string>());
  Result<std::vector<std::int64_t>> sizes = integers_of(node["shape"]);
  if (!sizes.ok()) return bad_tensor(name, sizes.error().message);
  if (sizes.value().size() > 4) return bad_tensor(name, "more than four dimensions");
  const Result<std::vector<std::int64_t>> offsets = integers_of(node["data_offsets"]);
  if (!offsets.ok()) return bad_tensor(name, offsets.error().message);
  if (offsets.value().size() != 2) return bad_tensor(name, "data_offsets are two numbers");
  return Entry{
      name, *dtype, std::move(sizes).value(), offsets.value().front(), offsets.value().back()};
}

/// Divides the bytes by one size after the other, since products of damaged sizes may overflow.
bool fits_its_shape(const Entry& entry) {
  std::int64_t left = entry.end - entry.first;
  const bool empty = left == 0;
  double n_most = 1.0;
  for (const std::int64_t size : entry.sizes) {
    n_most *= static_cast<double>(std::max<std::int64_t>(size, 1));
    if (size == 0 ? left != 0 : left % size != 0) return false;
    if (size > 0) left /= size;
  }
  return (empty || left == size_of(entry.dtype)) && n_most <= kMostElements;
}

/// Each entry's bytes must be its shape's, and all of them together the data, without a hole.
Outcome check_places(std::vector<Entry>& entries, std::int64_t n_bytes) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.first, a.end) < std::pair(b.first, b.end);
  });
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.first != at || entry.end < at || entry.end > n_bytes) {
      return bad_tensor(entry.name, "its bytes overlap others, leave a hole or are cut off");
    }
    if (!fits_its_shape(entry)) {
      return bad_tensor(entry.name, "shape and data_offsets disagree");
    }
    at = entry.end;
  }
  if (at != n_bytes) return Error{"bytes after the last tensor", {}};
  return success();
}

Outcome read_metadata(const Json& node, SafeTensors& contents) {
  if (!node.is_object()) return Error{"__metadata__ must be an object", {}};
  for (const auto& [name, value] : node.items()) {
    if (!value.is_string()) return Error{"__metadata__ holds texts only", {}};
    contents.metadata.emplace(name, value.get<std::string>());
  }
  return success();
}

Outcome read_header(std::string_view text, SafeTensors& contents, std::vector<Entry>& entries) {
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) return Error{"the header is not a JSON object", {}};
  for (const auto& [name, node] : header.items()) {
    if (name == "__metadata__") {
      if (Outcome outcome = read_metadata(node, contents); !outcome.ok()) return outcome;
      continue;
    }
    Result<Entry> entry = entry_of(name, node);
    if (!entry.ok()) return entry.error();
    entries.push_back(std::move(entry).value());
  }
  return success();
}

}  // namespace

const Tensor* SafeTensors::find(std::string_view name) const {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

std::string render_safetensors(const SafeTensors& contents) {
  JsonText json;
  append_header(json, contents);
  std::string header = json.str();
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xFFU));
  }
  bytes += header;
  for (const auto& [name, tensor] : contents.tensors) {
    bytes.append(static_cast<const char*>(tensor.read_raw()),
                 static_cast<std::size_t>(tensor.n_bytes()));
  }
  return bytes;
}

Result<SafeTensors> parse_safetensors(Runtime& runtime, std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return Error{"not a safetensors file: too short", {}};
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  bytes.remove_prefix(kLengthBytes);
  if (length > bytes.size()) return Error{"the header is cut off", {}};
  SafeTensors contents;
  std::vector<Entry> entries;
  const std::string_view data = bytes.substr(length);
  Outcome outcome = read_header(bytes.substr(0, length), contents, entries);
  if (outcome.ok()) outcome = check_places(entries, static_cast<std::int64_t>(data.size()));
  if (!outcome.ok()) return outcome.error();
  for (Entry& entry : entries) {
    Tensor tensor = Tensor::empty(runtime, Shape(entry.sizes), entry.dtype);
    if (tensor.n_bytes() > 0) {
      std::memcpy(tensor.write_raw(),
                  data.data() + entry.first,
                  static_cast<std::size_t>(tensor.n_bytes()));
    }
    contents.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return contents;
}

}  // namespace lockstep
