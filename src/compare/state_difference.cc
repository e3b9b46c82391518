#include "lockstep/compare/state_difference.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

/// The bits of an element of at most eight bytes.
std::uint64_t bits_of(const StoredTensor& tensor, std::int64_t element) {
  const auto size = static_cast<std::size_t>(size_of(tensor.type));
  std::uint64_t bits = 0;
  std::memcpy(&bits,
              tensor.bytes.data() + static_cast<std::size_t>(element) * size,
              std::min(size, sizeof bits));
  return bits;
}

std::string element_text(const StoredTensor& tensor, std::int64_t element) {
  if (const std::optional<FloatFormat> format = FloatFormat::of(tensor.type)) {
    return exact(format->read(tensor.bytes, static_cast<std::size_t>(element)));
  }
  const std::uint64_t bits = bits_of(tensor, element);
  switch (tensor.type) {
    case ElementType::kI64:
      return std::to_string(static_cast<std::int64_t>(bits));
    case ElementType::kI32:
      return std::to_string(static_cast<std::int32_t>(bits));
    case ElementType::kI16:
      return std::to_string(static_cast<std::int16_t>(bits));
    case ElementType::kI8:
      return std::to_string(static_cast<std::int8_t>(bits));
    case ElementType::kU64:
    case ElementType::kU32:
    case ElementType::kU16:
    case ElementType::kU8:
      return std::to_string(bits);
    case ElementType::kBool:
      return bits != 0 ? "true" : "false";
    default:
      return fmt::format("0x{:x}", bits);
  }
}

std::string shape_text(const StoredTensor& tensor) {
  std::string text(name_of(tensor.type));
  text += '[';
  text += join(tensor.sizes);
  return text + "]";
}

/// The difference of one tensor, or nothing.
std::optional<TensorDifference> compare_tensors(const StoredTensor& left,
                                                const StoredTensor& right) {
  TensorDifference difference{.tensor = left.name};
  if (left.type != right.type || left.sizes != right.sizes) {
    difference.text =
        "tensor `" + left.name + "`: " + shape_text(left) + " against " + shape_text(right);
    return difference;
  }
  if (left.bytes == right.bytes) return std::nullopt;
  const TensorDistance distance = distance_between(left, right);
  const std::string place = left.sizes.empty() ? "" : place_text(left.sizes, distance.first);
  difference.text = fmt::format("tensor `{}`{}: {} against {}; {}",
                                left.name,
                                place,
                                element_text(left, distance.first),
                                element_text(right, distance.first),
                                text_of(distance, left.sizes));
  difference.distance = distance;
  return difference;
}

TensorDifference missing(const std::string& name, std::string_view which) {
  return {.tensor = name,
          .text = "tensor `" + name + "` is only in the " + std::string(which) + " file"};
}

}  // namespace

std::vector<TensorDifference> state_differences(std::span<const StoredTensor> left,
                                                std::span<const StoredTensor> right) {
  std::map<std::string_view, const StoredTensor*> others;
  for (const StoredTensor& tensor : right) others.emplace(tensor.name, &tensor);
  std::vector<TensorDifference> found;
  for (const StoredTensor& tensor : left) {
    const auto other = others.find(tensor.name);
    if (other == others.end()) {
      found.push_back(missing(tensor.name, "first"));
      continue;
    }
    if (auto difference = compare_tensors(tensor, *other->second)) {
      found.push_back(std::move(*difference));
    }
    others.erase(other);
  }
  for (const StoredTensor& tensor : right) {
    if (others.contains(tensor.name)) found.push_back(missing(tensor.name, "second"));
  }
  return found;
}

}  // namespace lockstep
