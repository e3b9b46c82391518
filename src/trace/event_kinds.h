// Sets of event kinds: which reader wants which.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

#include "lockstep/trace/event.h"

namespace lockstep {

/// One bit per kind, by its place in EventBody.
using EventKinds = std::uint64_t;

static_assert(std::variant_size_v<EventBody> <= std::numeric_limits<EventKinds>::digits);

constexpr EventKinds kAllEventKinds = std::numeric_limits<EventKinds>::max();

namespace detail {

template <typename Body, typename... Bodies>
constexpr EventKinds kind_bit(const std::variant<Bodies...>* /*list*/) {
  EventKinds bit = 1;
  // Counts the places before Body: the fold ends at its first match.
  [[maybe_unused]] const bool found =
      ((std::is_same_v<Body, Bodies> || ((bit <<= 1U), false)) || ...);
  return bit;
}

}  // namespace detail

/// The set of the named kinds: kinds_of<GradEvent, StepEvent>().
template <typename... Bodies>
constexpr EventKinds kinds_of() {
  constexpr const EventBody* kList = nullptr;
  return (detail::kind_bit<Bodies>(kList) | ... | EventKinds{0});
}

}  // namespace lockstep
