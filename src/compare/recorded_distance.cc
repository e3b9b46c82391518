#include "lockstep/compare/recorded_distance.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

const Event& event_at(const EventPlace& side) { return side.trace->events(side.rank)[side.place]; }

bool is_about(const ValueEvent& values, const NameTable& names, std::string_view tensor) {
  return names.text(values.tensor) == tensor;
}

/// What the values of this event's tensors are recorded under; absent: it has none.
std::optional<ValuePoint> value_point_of(const Event& event) {
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) return value_point(grad->point);
  if (const auto* state = std::get_if<StateEvent>(&event.body)) return value_point(state->point);
  return std::nullopt;
}

/// The values of one tensor of an event: they follow it at once. Null: not recorded.
const ValueEvent* values_of(const EventPlace& side, std::string_view tensor) {
  const std::span<const Event> events = side.trace->events(side.rank);
  const NameTable& names = side.trace->names();
  if (const auto* own = std::get_if<ValueEvent>(&event_at(side).body)) return own;
  const std::optional<ValuePoint> point = value_point_of(event_at(side));
  for (std::size_t i = side.place + 1; point && i < events.size(); ++i) {
    const auto* values = std::get_if<ValueEvent>(&events[i].body);
    if (values == nullptr || values->point != *point) return nullptr;
    if (is_about(*values, names, tensor)) return values;
  }
  return nullptr;
}

/// One tensor of a gradient event.
struct GradPart {
  Sketch sketch;
  std::int64_t n_elems = 0;
};

std::optional<GradPart> sketch_in(const EventPlace& side, std::string_view tensor) {
  const auto* grad = std::get_if<GradEvent>(&event_at(side).body);
  if (grad == nullptr) return std::nullopt;
  const NameTable& names = side.trace->names();
  const std::span<const NameId> layout = names.layout(grad->layout);
  for (std::size_t i = 0;
       i < std::min({layout.size(), grad->sketches.size(), grad->n_elems.size()});
       ++i) {
    if (names.text(layout[i]) == tensor) return GradPart{grad->sketches[i], grad->n_elems[i]};
  }
  return std::nullopt;
}

/// The type of a tensor, as far as gradients of it tell.
std::optional<FloatFormat> format_of(const EventPlace& side, std::string_view tensor) {
  const NameTable& names = side.trace->names();
  for (const Event& event : side.trace->events(side.rank)) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad == nullptr) continue;
    for (const NameId name : names.layout(grad->layout)) {
      if (names.text(name) == tensor) return FloatFormat::of(grad->dtype);
    }
  }
  return std::nullopt;
}

RecordedDistance of_values(const ValueEvent& left,
                           const ValueEvent& right,
                           std::optional<FloatFormat> format) {
  RecordedDistance found;
  if (left.values.size() != right.values.size()) {
    found.text = std::to_string(left.values.size()) + " elements against " +
                 std::to_string(right.values.size());
    return found;
  }
  found.values = distance_between(left.values, right.values, format);
  const TensorDistance& distance = *found.values;
  if (distance.n_different == 0) {
    found.text = "no recorded value differs: the bits of a NaN do, which values do not keep";
    return found;
  }
  const auto first = static_cast<std::size_t>(distance.first);
  found.text = place_text({}, distance.first) + " is " + exact(left.values[first]) + " against " +
               exact(right.values[first]) + "; " + text_of(distance, {});
  if (!format) found.text += " (no gradient of it says which type it has, so ulps are not counted)";
  return found;
}

/// What sketches tell, rounding taken off; absent: nothing.
std::optional<double> least_sum_of(const GradPart& left, const GradPart& right) {
  if (left.n_elems != right.n_elems) return std::nullopt;
  double apart = std::abs(left.sketch.l1 - right.sketch.l1);
  for (std::size_t j = 0; j < left.sketch.sums.size(); ++j) {
    apart = std::max(apart, std::abs(left.sketch.sums[j] - right.sketch.sums[j]));
  }
  const double rounding = left.n_elems > 1 ? static_cast<double>(left.n_elems) * 0x1p-52 *
                                                 (left.sketch.l1 + right.sketch.l1)
                                           : 0.0;
  const double least = apart - rounding;
  if (!std::isfinite(least) || least <= 0.0) return std::nullopt;
  return least;
}

}  // namespace

RecordedDistance recorded_distance(const EventPlace& left,
                                   const EventPlace& right,
                                   std::string_view tensor) {
  const ValueEvent* const a = values_of(left, tensor);
  const ValueEvent* const b = values_of(right, tensor);
  if (a != nullptr && b != nullptr) return of_values(*a, *b, format_of(left, tensor));
  RecordedDistance found;
  const auto left_part = sketch_in(left, tensor);
  const auto right_part = sketch_in(right, tensor);
  if (left_part && right_part) found.least_sum = least_sum_of(*left_part, *right_part);
  if (found.least_sum) {
    found.text = "the absolute differences of its " + std::to_string(left_part->n_elems) +
                 (left_part->n_elems == 1 ? " element" : " elements") + " add up to " +
                 exact(*found.least_sum) + " or more; ";
  }
  found.text +=
      "digests do not show which elements differ, and by how many ulps: record both runs with "
      "--values";
  return found;
}

}  // namespace lockstep
