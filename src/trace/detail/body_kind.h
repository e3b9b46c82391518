// What is done with bodies of events where only their kind is known: one way through the code for all of them,
// since that of every kind by itself would not stay in a processor's cache.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "lockstep/trace/event.h"
#include "lockstep/trace/similarity.h"

namespace lockstep::detail {

template <typename Body>
constexpr std::size_t kKindOf = static_cast<std::size_t>(std::countr_zero(kinds_of<Body>()));

/// Requires: bodies of this kind.
struct BodyKind {
  Similarity (*similarity)(const void* left, const void* right);
  /// Of what was measured of tensors, as TraceDigest::measured(); nothing where a body has none.
  std::optional<std::uint64_t> (*measured)(const void* body);
  /// Its spans point to where they did.
  void (*copy)(const void* body, EventBody& to);
};

/// By place in EventBody. Its definition is constexpr.
// NOLINTNEXTLINE(readability-identifier-naming)
extern const std::array<BodyKind, std::variant_size_v<EventBody>> kBodyKinds;

/// A body, and what is done with it.
struct BodyRef {
  const BodyKind* kind = nullptr;
  const void* body = nullptr;

  template <typename Body>
  static BodyRef of(const Body& body) {
    static_assert(kKindOf<Body> < std::variant_size_v<EventBody>, "no body of an event");
    return {&kBodyKinds[kKindOf<Body>], &body};
  }

  static BodyRef of(const EventBody& body);

  template <typename Body>
  bool is() const {
    return kind == &kBodyKinds[kKindOf<Body>];
  }
};

}  // namespace lockstep::detail
