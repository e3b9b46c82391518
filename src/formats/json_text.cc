#include "lockstep/formats/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Bytes that a UTF-8 sequence with this first byte has, 0 for a byte that starts none.
std::size_t announced_length(unsigned lead) {
  if (lead < 0x80U) return 1;
  if (lead < 0xC2U) return 0;
  if (lead < 0xE0U) return 2;
  if (lead < 0xF0U) return 3;
  return lead < 0xF5U ? 4 : 0;
}

bool is_plain(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte >= 0x20U && byte < 0x80U && letter != '"' && letter != '\\';
}

/// Letters from the first on that stand for themselves: nearly all that a trace has.
std::size_t plain_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t i) {
  const unsigned lead = byte_at(text, i);
  const std::size_t length = announced_length(lead);
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = length > 1 ? byte_at(text, i + 1) : 0;
  const bool overlong = (lead == 0xE0U && second < 0xA0U) || (lead == 0xF0U && second < 0x90U);
  const bool out_of_range = (lead == 0xEDU && second > 0x9FU) || (lead == 0xF4U && second > 0x8FU);
  return overlong || out_of_range ? 0 : length;
}

void JsonText::clear() {
  out_.clear();
  needs_comma_ = false;
}

void JsonText::separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

JsonText& JsonText::open(char bracket) {
  separate();
  out_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

void JsonText::quote(std::string_view value) {
  const std::size_t plain = plain_length(value);
  if (plain < value.size()) return quote_from(value, plain);
  const std::size_t at = out_.size();
  out_.resize(at + value.size() + 2, '"');
  value.copy(out_.data() + at + 1, value.size());
}

void JsonText::quote_from(std::string_view value, std::size_t plain) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out_ += '"';
  out_ += value.substr(0, plain);
  for (std::size_t i = plain; i < value.size();) {
    const std::size_t length = utf8_length(value, i);
    const char letter = value[i];
    if (length == 0) {
      out_ += "\\ufffd";
    } else if (letter == '"' || letter == '\\') {
      out_ += '\\';
      out_ += letter;
    } else if (letter == '\n') {
      out_ += "\\n";
    } else if (byte_at(value, i) < 0x20U) {
      out_ += "\\u00";
      out_ += kDigits[byte_at(value, i) / 16];
      out_ += kDigits[byte_at(value, i) % 16];
    } else {
      out_ += value.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  out_ += '"';
}

JsonText& JsonText::text(std::string_view value) {
  separate();
  quote(value);
  return *this;
}

JsonText& JsonText::integer(std::int64_t value) {
  separate();
  std::array<char, 24> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out_.append(digits.data(), written.ptr);
  return *this;
}

JsonText& JsonText::real(double value) {
  if (std::isnan(value)) return text("nan");
  if (std::isinf(value)) return text(value > 0 ? "inf" : "-inf");
  separate();
  // "-0" is an integer to most readers, which have no negative zero.
  out_ += value == 0.0 && std::signbit(value) ? std::string("-0.0") : exact(value);
  return *this;
}

JsonText& JsonText::flag(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonText& JsonText::word(std::uint64_t value) { return text(hex64(value)); }

JsonText& JsonText::null() {
  separate();
  out_ += "null";
  return *this;
}

}  // namespace lockstep
