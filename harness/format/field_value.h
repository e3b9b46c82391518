// How values of each type are read from a table, and how the page shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/text.h"
#include "lockstep/base/types.h"
#include "lockstep/harness/format/schema.h"
#include "lockstep/harness/format/table_reader.h"

namespace lockstep {

/// Specialised for each type that a scenario's values have: its FieldType; what the type says of a
/// field; how a key that is there replaces the value; how the page shows a default.
template <typename M>
struct FieldValue;

template <>
struct FieldValue<bool> {
  static constexpr FieldType kType = FieldType::kFlag;

  static void describe(SchemaField&) {}

  static void read(TableReader& table, const SchemaField& field, bool& value) {
    value = table.flag(field.key, value);
  }

  static std::string shown(bool value) { return value ? "true" : "false"; }
};

/// Integers. Those of 64 bits without a sign are seeds.
template <typename M>
requires std::is_integral_v<M>

struct FieldValue<M> {
  static constexpr FieldType kType = FieldType::kInteger;

  static void describe(SchemaField& field) {
    field.most = sizeof(M) < sizeof(std::int64_t) ? TableReader::kMostSmall
                 : std::is_unsigned_v<M>          ? TableReader::kMaxInteger
                                                  : TableReader::kMost;
  }

  static void read(TableReader& table, const SchemaField& field, M& value) {
    value = static_cast<M>(
        table.integer(field.key, static_cast<std::int64_t>(value), field.least, field.most));
  }

  static std::string shown(M value) { return std::to_string(value); }
};

template <>
struct FieldValue<Duration> {
  static constexpr FieldType kType = FieldType::kInteger;

  static void describe(SchemaField& field) {
    field.most = TableReader::kMost;
    field.unit = "ns";
  }

  static void read(TableReader& table, const SchemaField& field, Duration& value) {
    FieldValue<std::int64_t>::read(table, field, value.ns);
  }

  static std::string shown(Duration value) { return std::to_string(value.ns); }
};

template <>
struct FieldValue<double> {
  static constexpr FieldType kType = FieldType::kNumber;

  static void describe(SchemaField&) {}

  static void read(TableReader& table, const SchemaField& field, double& value) {
    value = field.from ? table.number_between(field.key, value, *field.from, field.to)
                       : table.number(field.key, value);
  }

  static std::string shown(double value) { return exact(value); }
};

template <>
struct FieldValue<std::string> {
  static constexpr FieldType kType = FieldType::kText;

  static void describe(SchemaField&) {}

  static void read(TableReader& table, const SchemaField& field, std::string& value) {
    value = field.words.empty() ? table.text(field.key, value)
                                : table.word(field.key, value, field.words, field.later);
  }

  static std::string shown(const std::string& value) { return value; }

  static std::string_view word(const std::string& value) { return value; }
};

template <NamedEnum E>
struct FieldValue<E> {
  static constexpr FieldType kType = FieldType::kWord;

  static void describe(SchemaField& field) {
    for (const std::string_view word : kEnumNames<E>) {
      if (!word.empty()) field.words.push_back(word);
    }
  }

  static void read(TableReader& table, const SchemaField& field, E& value) {
    if (!table.has(field.key)) return;  // The default may be a value that has no word.
    const std::string word = table.word(field.key, name_of(value), field.words, field.later);
    value = parse_enum<E>(word).value_or(value);
  }

  static std::string shown(E value) { return std::string(name_of(value)); }

  static std::string_view word(E value) { return name_of(value); }
};

/// Some words of an enum, or all of them.
template <NamedEnum E>
struct FieldValue<std::vector<E>> {
  static constexpr FieldType kType = FieldType::kWords;

  static void describe(SchemaField& field) { FieldValue<E>::describe(field); }

  static void read(TableReader& table, const SchemaField& field, std::vector<E>& values) {
    if (!table.has(field.key)) return;
    values.clear();
    for (const std::string& word : table.words(field.key, field.words)) {
      if (const std::optional<E> value = parse_enum<E>(word)) values.push_back(*value);
    }
  }

  static std::string shown(const std::vector<E>& values) {
    if (values.empty()) return "none";
    return values.size() == kEnumNames<E>.size() ? "all" : "some";
  }
};

/// What a list of some type is, and how it is read.
template <typename M>
struct ListOf;

template <>
struct ListOf<std::int64_t> {
  static constexpr FieldType kType = FieldType::kIntegers;

  static auto read(TableReader& table, std::string_view key) { return table.integers(key); }
};

template <>
struct ListOf<double> {
  static constexpr FieldType kType = FieldType::kNumbers;

  static auto read(TableReader& table, std::string_view key) { return table.numbers(key); }
};

template <>
struct ListOf<std::string> {
  static constexpr FieldType kType = FieldType::kTexts;

  static auto read(TableReader& table, std::string_view key) { return table.texts(key); }
};

template <>
struct ListOf<std::vector<double>> {
  static constexpr FieldType kType = FieldType::kLists;

  static auto read(TableReader& table, std::string_view key) { return table.number_lists(key); }
};

template <>
struct ListOf<std::vector<std::int64_t>> {
  static constexpr FieldType kType = FieldType::kLists;

  static auto read(TableReader& table, std::string_view key) { return table.integer_lists(key); }
};

template <typename M>
struct FieldValue<std::vector<M>> {
  static constexpr FieldType kType = ListOf<M>::kType;

  static void describe(SchemaField&) {}

  static void read(TableReader& table, const SchemaField& field, std::vector<M>& values) {
    if (table.has(field.key)) values = ListOf<M>::read(table, field.key);
  }

  static std::string shown(const std::vector<M>& values) {
    if constexpr (std::is_arithmetic_v<M>) {
      std::string text;
      for (const M& value : values) {
        text += (text.empty() ? "" : ", ") + FieldValue<M>::shown(value);
      }
      return text;
    } else {
      return {};
    }
  }
};

/// A value that may be missing, which is something else than any default.
template <typename M>
struct FieldValue<std::optional<M>> {
  static constexpr FieldType kType = FieldValue<M>::kType;

  static void describe(SchemaField& field) { FieldValue<M>::describe(field); }

  static void read(TableReader& table, const SchemaField& field, std::optional<M>& value) {
    if (!table.has(field.key)) return;
    M given{};
    FieldValue<M>::read(table, field, given);
    value = std::move(given);
  }

  static std::string shown(const std::optional<M>& value) {
    return value ? FieldValue<M>::shown(*value) : std::string();
  }
};

}  // namespace lockstep
