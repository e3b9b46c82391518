// Where loops keep what is between their inputs and outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// Room for the intermediate values of two blocks of elements, in the first-level cache for all
/// ranks of a thread. On their stacks it would take each of them a page that nothing else needs.
///
/// Requires: used by one operation at a time; none gives its turn away.
class BlockScratch {
 public:
  static constexpr std::int64_t kElems = 256;

  /// kElems values, unspecified.
  template <typename V>
  V* first() {
    return values<V>(first_);
  }

  template <typename V>
  V* second() {
    return values<V>(second_);
  }

 private:
  using Bytes = std::array<std::byte, kElems * 8>;

  template <typename V>
  static V* values(Bytes& bytes) {
    static_assert(sizeof(V) * kElems <= sizeof(Bytes));
    return reinterpret_cast<V*>(bytes.data());
  }

  alignas(64) Bytes first_{};
  alignas(64) Bytes second_{};
};

}  // namespace lockstep::detail
