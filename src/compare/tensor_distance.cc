#include "lockstep/compare/tensor_distance.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

/// Adds an element that differs, with its two numbers.
void add_numbers(TensorDistance& distance,
                 std::int64_t element,
                 double a,
                 double b,
                 const std::optional<FloatFormat>& format) {
  if (std::isnan(a) || std::isnan(b)) {
    ++distance.n_beside_nan;
    return;
  }
  const double apart = std::abs(a - b);
  if (!distance.largest || apart > *distance.largest) {
    distance.largest = apart;
    distance.largest_at = element;
  }
  if (!format) return;
  const std::uint64_t ulps = format->ulps_between(a, b);
  if (!distance.ulps || ulps > *distance.ulps) {
    distance.ulps = ulps;
    distance.ulps_at = element;
  }
}

void count(TensorDistance& distance, std::int64_t element) {
  if (distance.n_different++ == 0) distance.first = element;
}

std::string ulps_text(const TensorDistance& distance) {
  return fmt::format("{} {} of {}",
                     *distance.ulps,
                     *distance.ulps == 1 ? "ulp" : "ulps",
                     name_of(distance.ulps_of));
}

/// ", by 0.25 at most, 524288 ulps of float32, at [1, 2]"
std::string numbers_text(const TensorDistance& distance, std::span<const std::int64_t> sizes) {
  if (!distance.largest) return {};
  const bool several = distance.n_elements > 1;
  const auto at = [&](std::int64_t element) {
    return several ? " at " + place_text(sizes, element) : std::string();
  };
  if (*distance.largest == 0.0) return ", in the sign of a zero";
  std::string text = ", by " + exact(*distance.largest) + (several ? " at most" : "");
  if (!distance.ulps) return text + at(distance.largest_at);
  if (distance.ulps_at == distance.largest_at) {
    return text + ", " + ulps_text(distance) + (several ? "," : "") + at(distance.ulps_at);
  }
  return text + at(distance.largest_at) + ", by " + ulps_text(distance) + " at most" +
         at(distance.ulps_at);
}

}  // namespace

TensorDistance distance_between(const StoredTensor& left, const StoredTensor& right) {
  LOCKSTEP_CHECK(left.type == right.type && left.bytes.size() == right.bytes.size(),
                 "tensors of one type and size have a distance");
  const std::optional<FloatFormat> format = FloatFormat::of(left.type);
  const auto size = static_cast<std::size_t>(size_of(left.type));
  TensorDistance distance{.n_elements = static_cast<std::int64_t>(left.bytes.size() / size),
                          .ulps_of = left.type};
  for (std::int64_t i = 0; i < distance.n_elements; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::size_t at = index * size;
    if (std::memcmp(left.bytes.data() + at, right.bytes.data() + at, size) == 0) continue;
    count(distance, i);
    if (!format) continue;
    add_numbers(
        distance, i, format->read(left.bytes, index), format->read(right.bytes, index), format);
  }
  return distance;
}

TensorDistance distance_between(std::span<const double> left,
                                std::span<const double> right,
                                std::optional<FloatFormat> format) {
  LOCKSTEP_CHECK(left.size() == right.size(), "tensors of one size have a distance");
  TensorDistance distance{.n_elements = static_cast<std::int64_t>(left.size()),
                          .ulps_of = format ? format->type() : ElementType::kF32};
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    if (both_nan ||
        std::bit_cast<std::uint64_t>(left[i]) == std::bit_cast<std::uint64_t>(right[i])) {
      continue;
    }
    count(distance, static_cast<std::int64_t>(i));
    add_numbers(distance, static_cast<std::int64_t>(i), left[i], right[i], format);
  }
  return distance;
}

std::string text_of(const TensorDistance& distance, std::span<const std::int64_t> sizes) {
  std::string text = fmt::format("{} of {} {}",
                                 distance.n_different,
                                 distance.n_elements,
                                 distance.n_elements == 1 ? "element differs" : "elements differ");
  text += numbers_text(distance, sizes);
  if (distance.n_beside_nan > 0) {
    text += fmt::format(", {} of them with a NaN on a side", distance.n_beside_nan);
  }
  return text;
}

std::string place_text(std::span<const std::int64_t> sizes, std::int64_t element) {
  if (sizes.empty()) return "[" + std::to_string(element) + "]";
  std::vector<std::int64_t> index(sizes.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = element % sizes[d];
    element /= sizes[d];
  }
  return "[" + join(index) + "]";
}

}  // namespace lockstep
