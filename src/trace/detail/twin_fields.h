// How far two bodies of one type say the same, field by field.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "lockstep/trace/detail/event_fields.h"
#include "lockstep/trace/similarity.h"

namespace lockstep::detail {

/// Shown the fields of one body, compares each with the field at the same place of another body.
class TwinFields {
 public:
  template <typename Body>
  TwinFields(const Body& left, const Body& right)
      : left_(reinterpret_cast<const std::byte*>(&left)),
        right_(reinterpret_cast<const std::byte*>(&right)) {}

  Similarity similarity() const {
    if (!alike_) return Similarity::kSameKind;
    return equal_ ? Similarity::kEqual : Similarity::kSameShape;
  }

  template <typename T>
  void flag(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void integer(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void real(const char* /*key*/, const T& value) {
    compare(value);
  }

  void measure(const char* /*key*/, const double& value) {
    equal_ =
        equal_ && std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(twin(value));
  }

  template <typename T>
  void word(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void name(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void layout(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void choice(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void spelled(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void aside(const char* /*key*/, const T& value) {
    compare(value);
  }

  template <typename T>
  void integers(const char* /*key*/, const std::span<const T>& values) {
    compare_list(values);
  }

  template <typename T>
  void reals(const char* /*key*/, const std::span<const T>& values) {
    compare_list(values);
  }

  template <typename T>
  void bits(const char* /*key*/, const std::span<const T>& values) {
    compare_list(values);
  }

  template <typename T>
  void words(const char* /*key*/, const std::span<const T>& values) {
    compare_measured(values);
  }

  template <typename T>
  void sketches(const char* /*key*/, const std::span<const T>& values) {
    compare_measured(values);
  }

  void site(const char* /*key*/, const CallSite& value) {
    const CallSite& other = twin(value);
    alike_ = alike_ && value.line == other.line && same_text(value.file, other.file) &&
             same_text(value.scope, other.scope);
  }

 private:
  /// The other body's field at the place of `value`.
  template <typename T>
  const T& twin(const T& value) const {
    const std::ptrdiff_t place = reinterpret_cast<const std::byte*>(&value) - left_;
    return *reinterpret_cast<const T*>(right_ + place);
  }

  static bool same_text(const char* left, const char* right) {
    return left == right || std::strcmp(left, right) == 0;
  }

  template <typename T>
  static bool same_bits(std::span<const T> left, std::span<const T> right) {
    if (left.size() != right.size()) return false;
    if (left.data() == right.data() || left.empty()) return true;
    if constexpr (std::is_integral_v<T>) {
      // A few words, of which often the first one differs: a call takes longer.
      constexpr std::size_t kFew = 8;
      if (left.size() <= kFew) return std::equal(left.begin(), left.end(), right.begin());
      if (left.front() != right.front()) return false;
    }
    return std::memcmp(left.data(), right.data(), left.size_bytes()) == 0;
  }

  template <typename T>
  [[gnu::always_inline]] void compare(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      alike_ = alike_ &&
               std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(twin(value));
    } else {
      alike_ = alike_ && value == twin(value);
    }
  }

  template <typename T>
  void compare_list(const std::span<const T>& values) {
    alike_ = alike_ && same_bits(values, twin(values));
  }

  /// What was measured of tensors may differ where everything else is the same.
  template <typename T>
  void compare_measured(const std::span<const T>& values) {
    alike_ = alike_ && values.size() == twin(values).size();
    equal_ = equal_ && alike_ && same_bits(values, twin(values));
  }

  const std::byte* left_;
  const std::byte* right_;
  bool alike_ = true;
  bool equal_ = true;
};

/// Whether two bodies of one type are about the same thing.
template <typename Body>
bool same_subject(const Body& /*left*/, const Body& /*right*/) {
  return true;
}

inline bool same_subject(const GradEvent& left, const GradEvent& right) {
  return left.point == right.point && left.layout == right.layout;
}

inline bool same_subject(const StateEvent& left, const StateEvent& right) {
  return left.kind == right.kind && left.point == right.point && left.layout == right.layout;
}

inline bool same_subject(const LoneEvent& left, const LoneEvent& right) {
  return left.point == right.point && left.layout == right.layout;
}

inline bool same_subject(const InputEvent& left, const InputEvent& right) {
  return left.argument == right.argument;
}

inline bool same_subject(const CollectiveEvent& left, const CollectiveEvent& right) {
  return left.phase == right.phase;
}

inline bool same_subject(const LossEvent& left, const LossEvent& right) {
  return left.function == right.function;
}

/// Whether it is known of two bodies about the same thing that they are equal.
template <typename Body>
bool known_equal(const Body& /*left*/, const Body& /*right*/) {
  return false;
}

inline bool known_equal(const GradEvent& left, const GradEvent& right) {
  return left.number != 0 && left.number == right.number;
}

/// Requires: bodies of ranks at the same position.
template <typename Body>
[[gnu::flatten]] Similarity similarity_of(const Body& left, const Body& right) {
  if (!same_subject(left, right)) return Similarity::kUnrelated;
  if (known_equal(left, right)) return Similarity::kEqual;
  TwinFields fields(left, right);
  visit_fields(fields, left);
  return fields.similarity();
}

}  // namespace lockstep::detail
