#include "lockstep/compare/state_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <string_view>
#include <vector>

#include "lockstep/base/half.h"
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

/// The value of an element, or nothing for types that are shown by their bits.
std::optional<double> value_of(const StoredTensor& tensor, std::int64_t element) {
  const std::uint64_t bits = bits_of(tensor, element);
  switch (tensor.type) {
    case ElementType::kF64:
      return std::bit_cast<double>(bits);
    case ElementType::kF32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ElementType::kF16:
      return from_f16(static_cast<std::uint16_t>(bits));
    case ElementType::kBF16:
      return from_bf16(static_cast<std::uint16_t>(bits));
    default:
      return std::nullopt;
  }
}

std::string element_text(const StoredTensor& tensor, std::int64_t element) {
  if (const std::optional<double> value = value_of(tensor, element)) return exact(*value);
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

/// "[3, 5]" of a flat element; empty for a tensor of no dimensions.
std::string place_text(const StoredTensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> index(tensor.sizes.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = element % tensor.sizes[d];
    element /= tensor.sizes[d];
  }
  return index.empty() ? "" : "[" + join(index) + "]";
}

/// The elements that differ, and by how much at most where they are numbers.
struct Elements {
  std::int64_t first = -1;
  std::int64_t n = 0;
  std::int64_t n_all = 0;
  double largest = 0.0;
};

Elements compare_elements(const StoredTensor& left, const StoredTensor& right) {
  Elements found;
  const auto size = static_cast<std::size_t>(size_of(left.type));
  found.n_all = static_cast<std::int64_t>(left.bytes.size() / size);
  for (std::int64_t i = 0; i < found.n_all; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(left.bytes.data() + at, right.bytes.data() + at, size) == 0) continue;
    if (found.n++ == 0) found.first = i;
    const std::optional<double> a = value_of(left, i);
    const std::optional<double> b = value_of(right, i);
    if (a && b) found.largest = std::max(found.largest, std::abs(*a - *b));
  }
  return found;
}

std::string elements_text(const StoredTensor& left,
                          const StoredTensor& right,
                          const Elements& found) {
  std::string text = fmt::format("tensor `{}`{}: {} against {}",
                                 left.name,
                                 place_text(left, found.first),
                                 element_text(left, found.first),
                                 element_text(right, found.first));
  if (found.n_all > 1) text += fmt::format("; {} of {} elements differ", found.n, found.n_all);
  if (found.largest > 0.0) text += fmt::format(", by {} at most", exact(found.largest));
  return text;
}

/// The difference of one tensor, or nothing.
std::optional<StateDifference> compare_tensors(const StoredTensor& left,
                                               const StoredTensor& right) {
  StateDifference difference{.tensor = left.name};
  if (left.type != right.type || left.sizes != right.sizes) {
    difference.text =
        "tensor `" + left.name + "`: " + shape_text(left) + " against " + shape_text(right);
    return difference;
  }
  if (left.bytes == right.bytes) return std::nullopt;
  const Elements found = compare_elements(left, right);
  difference.element = found.first;
  difference.n_elements = found.n;
  difference.text = elements_text(left, right, found);
  return difference;
}

StateDifference missing(const std::string& name, std::string_view which) {
  return {.tensor = name,
          .text = "tensor `" + name + "` is only in the " + std::string(which) + " file"};
}

}  // namespace

std::optional<StateDifference> first_state_difference(const StateFile& left,
                                                      const StateFile& right) {
  std::map<std::string_view, const StoredTensor*> others;
  for (const StoredTensor& tensor : right.tensors) others.emplace(tensor.name, &tensor);
  std::optional<StateDifference> first;
  std::int64_t n = 0;
  const auto note = [&](std::optional<StateDifference> found) {
    if (!found) return;
    ++n;
    if (!first) first = std::move(found);
  };
  for (const StoredTensor& tensor : left.tensors) {
    const auto other = others.find(tensor.name);
    note(other == others.end() ? missing(tensor.name, "first")
                               : compare_tensors(tensor, *other->second));
    if (other != others.end()) others.erase(other);
  }
  for (const StoredTensor& tensor : right.tensors) {
    if (others.contains(tensor.name)) note(missing(tensor.name, "second"));
  }
  if (!first) return std::nullopt;
  first->n_tensors = n;
  if (n > 1) first->text += "; " + std::to_string(n) + " tensors differ";
  return first;
}

}  // namespace lockstep
