// The words of closed sets: one table per enum, which prints, parses and lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// How users write the values of the enum E, in their order. Specialised beside each enum, whose
/// values count up from 0:
///
///   enum class Fruit : std::uint8_t { kApple, kPear };
///   template <>
///   inline constexpr EnumNames<2> kEnumNames<Fruit> = {"apple", "pear"};
template <std::size_t kN>
using EnumNames = std::array<std::string_view, kN>;

template <typename E>
inline constexpr EnumNames<0> kEnumNames{};

namespace detail {

/// A table that is too short has an empty word at its end.
template <typename E>
constexpr bool has_names() {
  if (kEnumNames<E>.empty()) return false;
  for (std::size_t i = 1; i < kEnumNames<E>.size(); ++i) {
    if (kEnumNames<E>[i].empty()) return false;
  }
  return true;
}

}  // namespace detail

/// An enum with a word for each of its values. The first may have none, if it is what is meant where
/// nothing is written.
template <typename E>
concept NamedEnum = std::is_enum_v<E> && detail::has_names<E>();

/// "pear". Requires: a value that E names.
template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return kEnumNames<E>[static_cast<std::size_t>(value)];
}

/// All values, in order.
template <NamedEnum E>
constexpr auto every() {
  std::array<E, kEnumNames<E>.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<E>(i);
  return all;
}

/// The value with exactly this word; nothing for any other.
template <NamedEnum E>
constexpr std::optional<E> parse_enum(std::string_view word) {
  const auto found = std::ranges::find(kEnumNames<E>, word);
  if (found == kEnumNames<E>.end()) return std::nullopt;
  return static_cast<E>(found - kEnumNames<E>.begin());
}

}  // namespace lockstep
