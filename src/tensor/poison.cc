#include "lockstep/tensor/poison.h"

#include <algorithm>
#include <span>

#include "lockstep/base/half.h"

namespace lockstep {

namespace {

/// Calls `visit` with the elements as a span of their type, and with one poisoned element.
template <typename Data, typename Visit>
bool visit_elements(
    Data* data, std::int64_t n_elems, DType dtype, std::uint64_t number, const Visit& visit) {
  const auto span_of = [&]<typename T>(T /*like*/) {
    using Element = std::conditional_t<std::is_const_v<Data>, const T, T>;
    return std::span<Element>(static_cast<Element*>(data), static_cast<std::size_t>(n_elems));
  };
  const auto single = std::bit_cast<std::uint32_t>(poison_of(number));
  switch (dtype) {
    case DType::kF32:
      return visit(span_of(std::uint32_t{}), single);
    case DType::kF64:
      return visit(span_of(std::uint64_t{}),
                   std::bit_cast<std::uint64_t>(static_cast<double>(poison_of(number))));
    case DType::kF16:
      return visit(span_of(std::uint16_t{}), kPoisonF16);
    case DType::kBF16:
      return visit(span_of(std::uint16_t{}), kPoisonBf16);
    default:
      return false;
  }
}

/// The value of an element's bits.
double value_of(std::uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF16:
      return from_f16(static_cast<std::uint16_t>(bits));
    default:
      return from_bf16(static_cast<std::uint16_t>(bits));
  }
}

}  // namespace

void fill_with_poison(void* data, std::int64_t n_elems, DType dtype, std::uint64_t number) {
  visit_elements(data, n_elems, dtype, number, [](const auto elements, const auto poison) {
    std::fill(elements.begin(), elements.end(), poison);
    return true;
  });
}

bool holds_poison(const void* data, std::int64_t n_elems, DType dtype, std::uint64_t number) {
  return visit_elements(data, n_elems, dtype, number, [](const auto elements, const auto poison) {
    return std::all_of(
        elements.begin(), elements.end(), [poison](const auto bits) { return bits == poison; });
  });
}

std::optional<std::uint16_t> find_poison(const void* data, std::int64_t n_elems, DType dtype) {
  std::optional<std::uint16_t> number;
  visit_elements(data, n_elems, dtype, 0, [&](const auto elements, const auto /*poison*/) {
    for (const auto bits : elements) {
      number = poisoned_by(value_of(bits, dtype));
      if (number) return true;
    }
    return false;
  });
  return number;
}

}  // namespace lockstep
