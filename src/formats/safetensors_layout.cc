#include "lockstep/formats/detail/safetensors_layout.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"

namespace lockstep::detail {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr double kMostElements = 1e15;  // Sizes next to a zero could overflow their product.

Error bad_tensor(const std::string& name, const std::string& what) {
  return {printable("tensor '" + name + "': " + what), {}};
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

Result<SafetensorsEntry> entry_of(const std::string& name, const Json& node) {
  if (!node.is_object() || !node.contains("dtype") || !node.contains("shape") ||
      !node.contains("data_offsets") || !node["dtype"].is_string()) {
    return bad_tensor(name, "dtype, shape and data_offsets are needed");
  }
  Result<std::vector<std::int64_t>> sizes = integers_of(node["shape"]);
  if (!sizes.ok()) return bad_tensor(name, sizes.error().message);
  const Result<std::vector<std::int64_t>> offsets = integers_of(node["data_offsets"]);
  if (!offsets.ok()) return bad_tensor(name, offsets.error().message);
  if (offsets.value().size() != 2) return bad_tensor(name, "data_offsets are two numbers");
  return SafetensorsEntry{name,
                          node["dtype"].get<std::string>(),
                          std::move(sizes).value(),
                          offsets.value().front(),
                          offsets.value().back()};
}

/// Divides the bytes by one size after the other, since products of damaged sizes may overflow.
bool fits_its_shape(const SafetensorsEntry& entry, std::int64_t element_size) {
  std::int64_t left = entry.end - entry.first;
  bool empty = false;
  double n_most = 1.0;
  for (const std::int64_t size : entry.sizes) {
    n_most *= static_cast<double>(std::max<std::int64_t>(size, 1));
    empty = empty || size == 0;
    if (size > 0 && left % size != 0) return false;
    if (size > 0) left /= size;
  }
  return left == (empty ? 0 : element_size) && n_most <= kMostElements;
}

/// Each entry's bytes must be its shape's, and all of them together the data, without a hole.
Outcome check_places(std::vector<SafetensorsEntry>& entries,
                     const ElementSize& size_of,
                     std::int64_t n_bytes) {
  std::stable_sort(
      entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::pair(a.first, a.end) < std::pair(b.first, b.end);
      });
  std::int64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t element_size = size_of(entry.dtype);
    if (element_size == 0) return bad_tensor(entry.name, "unknown dtype " + entry.dtype);
    if (entry.first != at || entry.end < at || entry.end > n_bytes) {
      return bad_tensor(entry.name, "its bytes overlap others, leave a hole or are cut off");
    }
    if (!fits_its_shape(entry, element_size)) {
      return bad_tensor(entry.name, "shape and data_offsets disagree");
    }
    at = entry.end;
  }
  if (at != n_bytes) return Error{"bytes after the last tensor", {}};
  return success();
}

Outcome read_metadata(const Json& node, SafetensorsLayout& layout) {
  if (!node.is_object()) return Error{"__metadata__ must be an object", {}};
  for (const auto& [name, value] : node.items()) {
    if (!value.is_string()) return Error{"__metadata__ holds texts only", {}};
    layout.metadata.emplace(name, value.get<std::string>());
  }
  return success();
}

Outcome read_header(std::string_view text, SafetensorsLayout& layout) {
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) return Error{"the header is not a JSON object", {}};
  for (const auto& [name, node] : header.items()) {
    if (name == "__metadata__") {
      if (Outcome outcome = read_metadata(node, layout); !outcome.ok()) return outcome;
      continue;
    }
    Result<SafetensorsEntry> entry = entry_of(name, node);
    if (!entry.ok()) return entry.error();
    layout.entries.push_back(std::move(entry).value());
  }
  return success();
}

}  // namespace

Result<SafetensorsLayout> read_safetensors_layout(std::string_view bytes,
                                                  const ElementSize& size_of) {
  if (bytes.size() < kLengthBytes) return Error{"not a safetensors file: too short", {}};
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  bytes.remove_prefix(kLengthBytes);
  if (length > bytes.size()) return Error{"the header is cut off", {}};
  SafetensorsLayout layout;
  layout.data = bytes.substr(static_cast<std::size_t>(length));
  Outcome outcome = read_header(bytes.substr(0, static_cast<std::size_t>(length)), layout);
  if (outcome.ok()) {
    outcome = check_places(layout.entries, size_of, static_cast<std::int64_t>(layout.data.size()));
  }
  if (!outcome.ok()) return outcome.error();
  return layout;
}

std::string render_safetensors_header(const SafetensorsLayout& layout) {
  JsonText json;
  json.open_object();
  if (!layout.metadata.empty()) {
    json.key("__metadata__").open_object();
    for (const auto& [name, value] : layout.metadata) json.key(name).text(value);
    json.close_object();
  }
  for (const SafetensorsEntry& entry : layout.entries) {
    json.key(entry.name).open_object();
    json.key("dtype").text(entry.dtype);
    json.key("shape").open_array();
    for (const std::int64_t size : entry.sizes) json.integer(size);
    json.close_array();
    json.key("data_offsets").open_array().integer(entry.first).integer(entry.end);
    json.close_array().close_object();
  }
  json.close_object();
  std::string header = json.str();
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xFFU));
  }
  return bytes + header;
}

}  // namespace lockstep::detail
