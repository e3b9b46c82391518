// The members of one line of a trace file, read with types and complaints.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/trace/detail/event_fields.h"

namespace lockstep::detail {

using Json = nlohmann::json;

/// Reads members of one line's object. The first wrong one is remembered; later calls do nothing,
/// so that callers check once. Members that are missing keep their defaults.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string_view line, NameTable& names)
      : object_(&object), line_(line), names_(&names) {}

  const std::string& error() const { return error_; }

  /// Where the member named by the error starts in the line, from 1.
  std::size_t column() const { return column_; }

  void fail(std::string_view key, const std::string& what) {
    if (!error_.empty()) return;
    error_ = what;
    const std::size_t at = line_.find("\"" + std::string(key) + "\"");
    column_ = at == std::string_view::npos ? 1 : at + 1;
  }

  void flag(const char* key, bool& value) {
    const Json* member = find(key);
    if (member == nullptr) return;
    if (!member->is_boolean()) return fail(key, quoted(key) + " must be true or false");
    value = member->get<bool>();
  }

  template <typename Number>
  void integer(const char* key, Number& value) {
    const Json* member = find(key);
    if (member != nullptr) value = to_integer<Number>(key, *member);
  }

  void real(const char* key, double& value) {
    const Json* member = find(key);
    if (member != nullptr) value = to_real(key, *member);
  }

  void measure(const char* key, double& value) { real(key, value); }

  void word(const char* key, std::uint64_t& value) {
    const Json* member = find(key);
    if (member != nullptr) value = to_word(key, *member);
  }

  void name(const char* key, NameId& id) {
    const Json* member = find(key);
    if (member != nullptr) id = names_->intern(to_text(key, *member));
  }

  void layout(const char* key, LayoutId& id) {
    const Json* list = find_list(key);
    if (list == nullptr) return;
    std::vector<NameId> names;
    for (const Json& entry : *list) names.push_back(names_->intern(to_text(key, entry)));
    id = names_->intern_layout(names);
    layout_size_ = names.size();
  }

  template <typename Choice>
  void choice(const char* key, Choice& value) {
    const Json* member = find(key);
    if (member == nullptr) return;
    const std::string text = to_text(key, *member);
    const std::optional<Choice> known = parse_enum<Choice>(text);
    if (known) {
      value = *known;
    } else {
      fail(key,
           "unknown " + std::string(key) + " '" + text + "'" +
               did_you_mean(text, kEnumNames<Choice>));
    }
  }

  template <typename Choice>
  void spelled(const char* key, Choice& value) {
    choice(key, value);
  }

  template <typename Choice>
  void aside(const char* key, Choice& value) {
    choice(key, value);
  }

  void aside(const char* key, NameId& id) { name(key, id); }

  void aside(const char* key, double& value) { real(key, value); }

  void integers(const char* key, std::span<const std::int64_t>& values) {
    values = read_list(key, int64s_, &FieldReader::to_integer<std::int64_t>);
  }

  void integers(const char* key, std::span<const std::int32_t>& values) {
    values = read_list(key, int32s_[n_int32s_ % 2], &FieldReader::to_integer<std::int32_t>);
    ++n_int32s_;
  }

  void words(const char* key, std::span<const std::uint64_t>& values) {
    values = read_list(key, words_, &FieldReader::to_word);
  }

  void reals(const char* key, std::span<const double>& values) {
    values = read_list(key, reals_, &FieldReader::to_real);
  }

  void sketches(const char* key, std::span<const Sketch>& values) {
    values = read_list(key, sketches_, &FieldReader::to_sketch);
  }

  void bits(const char* key, std::span<const std::uint8_t>& values) {
    std::vector<std::int64_t> positions;
    read_list(key, positions, &FieldReader::to_integer<std::int64_t>);
    bits_.assign((layout_size_ + 7) / 8, 0);
    for (const std::int64_t position : positions) {
      const auto i = static_cast<std::size_t>(position);
      if (position < 0 || i >= layout_size_) {
        return fail(key, "no tensor " + std::to_string(position) + " in this event");
      }
      bits_[i / 8] = static_cast<std::uint8_t>(bits_[i / 8] | (1U << (i % 8)));
    }
    values = bits_;
  }

  void site(const char* key, CallSite& site) {
    const Json* member = find(key);
    const std::string text = member == nullptr ? "" : to_text(key, *member);
    const std::size_t colon = text.rfind(':');
    if (!text.empty()) {
      const auto line = colon == std::string::npos
                            ? std::nullopt
                            : parse_int(std::string_view(text).substr(colon + 1));
      if (!line) return fail(key, "a site reads 'file:line'");
      site.line = static_cast<std::int32_t>(*line);
    }
    site.file = keep(std::string_view(text).substr(0, text.empty() ? 0 : colon));
    const Json* scope = find("scope");
    site.scope = keep(scope == nullptr ? "" : to_text("scope", *scope));
  }

  /// One entry per tensor where the list is there at all, as readers of events rely on.
  void check_sizes(const EventBody& body) {
    if (const auto* grad = std::get_if<GradEvent>(&body)) {
      expect_size("digests", grad->digests.size(), false);
      expect_size("n_elems", grad->n_elems.size(), false);
      expect_size("sketches", grad->sketches.size(), true);
    } else if (const auto* state = std::get_if<StateEvent>(&body)) {
      expect_size("digests", state->digests.size(), false);
    } else if (const auto* lone = std::get_if<LoneEvent>(&body)) {
      expect_size("digests", lone->digests.size(), false);
      expect_size("n_elems", lone->n_elems.size(), false);
      expect_size("sketches", lone->sketches.size(), false);
    } else if (const auto* options = std::get_if<OptimizerEvent>(&body)) {
      expect_size("values", options->values.size(), false);
    } else if (const auto* bucket = std::get_if<BucketEvent>(&body)) {
      check_bucket(*bucket);
    }
  }

  template <typename Number>
  Number to_integer(std::string_view key, const Json& value) {
    constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<Number>::min());
    constexpr auto kHigh = static_cast<std::int64_t>(std::numeric_limits<Number>::max());
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
    const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
    if (!fits || number < kLow || number > kHigh) {
      fail(key, quoted(key) + " must be an integer that fits");
      return 0;
    }
    return static_cast<Number>(number);
  }

  std::string to_text(std::string_view key, const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    fail(key, quoted(key) + " must be a string");
    return {};
  }

  const Json* find(const char* key) const {
    const auto member = object_->find(key);
    return member == object_->end() ? nullptr : &*member;
  }

  const Json* find_list(const char* key) {
    const Json* member = find(key);
    if (member != nullptr && member->is_array()) return member;
    if (member != nullptr) fail(key, quoted(key) + " must be a list");
    return nullptr;
  }

 private:
  static std::string quoted(std::string_view key) { return "'" + std::string(key) + "'"; }

  const char* keep(std::string_view text) { return names_->text(names_->intern(text)).data(); }

  double to_real(std::string_view key, const Json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    fail(key, quoted(key) + " must be a number, \"nan\", \"inf\" or \"-inf\"");
    return 0.0;
  }

  std::uint64_t to_word(std::string_view key, const Json& value) {
    const auto word =
        value.is_string() ? parse_hex64(value.get_ref<const std::string&>()) : std::nullopt;
    if (!word) fail(key, quoted(key) + " must hold hex digits in a string");
    return word.value_or(0);
  }

  Sketch to_sketch(std::string_view key, const Json& value) {
    Sketch sketch;
    if (!value.is_array() || value.size() != sketch.sums.size() + 1) {
      fail(key, "a sketch is a list of five numbers");
      return sketch;
    }
    sketch.l1 = to_real(key, value[0]);
    for (std::size_t i = 0; i < sketch.sums.size(); ++i)
      sketch.sums[i] = to_real(key, value[i + 1]);
    return sketch;
  }

  template <typename T>
  std::span<const T> read_list(const char* key,
                               std::vector<T>& into,
                               T (FieldReader::*read)(std::string_view, const Json&)) {
    into.clear();
    const Json* list = find_list(key);
    if (list == nullptr) return {};
    for (const Json& entry : *list) into.push_back((this->*read)(key, entry));
    return into;
  }

  void check_bucket(const BucketEvent& bucket) {
    std::int64_t sum = 0;
    for (const std::int32_t length : bucket.lengths) {
      if (length < 0) return fail("lengths", "'lengths' must be 0 or more");
      sum += length;
    }
    for (const std::int32_t index : bucket.indices) {
      if (index < 0) return fail("indices", "'indices' must be 0 or more");
    }
    if (sum != static_cast<std::int64_t>(bucket.indices.size())) {
      fail("lengths", "the lengths must add up to the number of indices");
    }
  }

  void expect_size(std::string_view key, std::size_t size, bool may_be_empty) {
    if (size == layout_size_ || (may_be_empty && size == 0)) return;
    fail(key, quoted(key) + " must have one entry per name");
  }

  const Json* object_;
  std::string_view line_;
  NameTable* names_;
  std::string error_;
  std::size_t column_ = 1;
  std::size_t layout_size_ = 0;
  std::size_t n_int32s_ = 0;
  std::vector<std::int64_t> int64s_;
  std::vector<std::int32_t> int32s_[2];  // A bucket event has two such lists at once.
  std::vector<std::uint64_t> words_;
  std::vector<double> reals_;
  std::vector<Sketch> sketches_;
  std::vector<std::uint8_t> bits_;
};

}  // namespace lockstep::detail
