#include "lockstep/trace/detail/body_kind.h"

#include <utility>

#include "lockstep/trace/detail/twin_fields.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep::detail {

namespace {

template <typename Body>
const Body& as(const void* body) {
  return *static_cast<const Body*>(body);
}

template <typename Body>
constexpr BodyKind kind_for() {
  return {
      .similarity =
          [](const void* left, const void* right) {
            return similarity_of(as<Body>(left), as<Body>(right));
          },
      .measured = [](const void* body) { return TraceDigest::measured(as<Body>(body)); },
      .copy = [](const void* body, EventBody& to) { to.emplace<Body>(as<Body>(body)); },
  };
}

template <std::size_t... kIndex>
constexpr auto kinds(std::index_sequence<kIndex...> /*all*/) {
  return std::array<BodyKind, sizeof...(kIndex)>{
      kind_for<std::variant_alternative_t<kIndex, EventBody>>()...};
}

}  // namespace

constexpr std::array<BodyKind, std::variant_size_v<EventBody>> kBodyKinds =
    kinds(std::make_index_sequence<std::variant_size_v<EventBody>>());

BodyRef BodyRef::of(const EventBody& body) {
  return std::visit([](const auto& own) { return of(own); }, body);
}

}  // namespace lockstep::detail
