#include "lockstep/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace lockstep {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({changed, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row.back();
}

template <typename T>
std::string join_any(std::span<const T> values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const T& value : values) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::is_same_v<T, std::string>) {
      text += value;
    } else {
      text += std::to_string(value);
    }
  }
  return text;
}

// The code point at `i` and its length; a length of 1 with a value from 0x80 on is not UTF-8.
struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 1;
};

/// Whether `value` is a code point that takes `length` bytes: no shorter ones do, and no surrogate is
/// one.
bool is_written_right(std::uint32_t value, std::size_t length) {
  if (length == 3) return value >= 0x800U && (value < 0xD800U || value >= 0xE000U);
  return length == 2 || (value >= 0x10000U && value <= 0x10FFFFU);
}

CodePoint code_point_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const std::uint32_t first = byte(i);
  const std::size_t length = first < 0xC2U ? 1 : first < 0xE0U ? 2 : first < 0xF0U ? 3 : 4;
  if (length == 1 || first > 0xF4U || length > text.size() - i) return {first, 1};
  std::uint32_t value = first & (0x7FU >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0U) != 0x80U) return {first, 1};
    value = value << 6U | (byte(i + k) & 0x3FU);
  }
  return is_written_right(value, length) ? CodePoint{value, length} : CodePoint{first, 1};
}

/// What a terminal acts upon instead of showing it.
bool is_control(std::uint32_t value) {
  const bool turns = (value >= 0x202AU && value <= 0x202EU) || value == 0x200EU ||
                     value == 0x200FU || (value >= 0x2066U && value <= 0x2069U);
  return value < 0x20U || (value >= 0x7FU && value < 0xA0U) || value == 0x2028U ||
         value == 0x2029U || turns;
}

void append_escape(std::string& out, CodePoint point) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (point.value == '\n') {
    out += "\\n";
    return;
  }
  const std::size_t n_digits = point.length == 1 ? 2 : 4;
  out += point.length == 1 ? "\\x" : "\\u";
  for (std::size_t k = n_digits; k-- > 0;) out += kHex[point.value >> (4 * k) & 15U];
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = code_point_at(text, i);
    const bool stays = point.length == 1 && kept.find(text[i]) != std::string_view::npos;
    const bool foreign = point.length == 1 && point.value >= 0x80U;
    if (!stays && (foreign || is_control(point.value))) {
      append_escape(out, point);
    } else {
      out += text.substr(i, point.length);
    }
    i += point.length;
  }
  return out;
}

std::string closest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = static_cast<std::size_t>(-1);
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const std::size_t limit = std::max<std::size_t>(2, std::max(word.size(), candidate.size()) / 3);
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string best = closest(word, candidates);
  return best.empty() ? std::string() : "; did you mean '" + best + "'?";
}

std::string alternatives(std::string_view word,
                         std::span<const std::string_view> candidates,
                         std::string_view heading) {
  std::string all(heading);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    all += i == 0 ? " " : ", ";
    all += candidates[i];
  }
  const std::string guess = did_you_mean(word, candidates);
  return guess.empty() ? "; " + all : guess + " (" + all + ")";
}

std::string hex64(std::uint64_t word) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; word >>= 4U) text[i] = kDigits[word & 15U];
  return text;
}

std::optional<std::uint64_t> parse_hex64(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || text.size() > 16) return std::nullopt;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string exact(double value) {
  char buffer[32];
  const auto [end, code] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return code == std::errc() ? std::string(buffer, end) : std::string();
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::int32_t> values, std::string_view separator) {
  return join_any(values, separator);
}

std::string join(std::span<const std::int64_t> values, std::string_view separator) {
  return join_any(values, separator);
}

std::string join(std::span<const std::string> values, std::string_view separator) {
  return join_any(values, separator);
}

}  // namespace lockstep
