#include "lockstep/harness/scenario/bug_spec.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {

namespace {

template <std::size_t... kI>
BugEffect effect_at(std::size_t index, std::index_sequence<kI...> /*all*/) {
  BugEffect effect;
  ((kI == index ? static_cast<void>(effect.emplace<kI>()) : void()), ...);
  return effect;
}

template <typename Text>
auto tensor_in() {
  return [](auto& one) -> Text* {
    if constexpr (requires { one.tensor; }) {
      return &one.tensor;
    } else {
      return nullptr;
    }
  };
}

}  // namespace

bool RankSet::contains(std::int32_t rank) const {
  return all || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

BugEffect effect_of(BugKind kind) {
  return effect_at(static_cast<std::size_t>(kind),
                   std::make_index_sequence<std::variant_size_v<BugEffect>>());
}

std::string* tensor_of(BugEffect& effect) { return std::visit(tensor_in<std::string>(), effect); }

const std::string* tensor_of(const BugEffect& effect) {
  return std::visit(tensor_in<const std::string>(), effect);
}

}  // namespace lockstep
