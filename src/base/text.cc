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

}  // namespace

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
