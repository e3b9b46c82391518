// Small text pieces every room needs: suggestions, hex words, exact numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The candidate closest to `word` by edit distance, or empty when none is close enough to be meant
/// (distance above a third of the longer word, at least 2). Ties go to the earlier candidate.
std::string closest(std::string_view word, std::span<const std::string_view> candidates);

/// "; did you mean 'x'?" for the closest candidate, or an empty string.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

/// What to say to a `word` that is not a candidate: the closest one, if any, then all of them.
/// "; did you mean 'x'? (the laws are x, y)", "; the laws are x, y". `heading`: "the laws are".
std::string alternatives(std::string_view word,
                         std::span<const std::string_view> candidates,
                         std::string_view heading);

/// Sixteen lower-case hex digits.
std::string hex64(std::uint64_t word);
/// Reads exactly 1-16 hex digits; nothing for anything else.
std::optional<std::uint64_t> parse_hex64(std::string_view text);

/// The shortest decimal that reads back to the same double: "0.1", "200", "1e+30", "nan", "inf".
std::string exact(double value);
/// Whole-text parses; nothing when a character is left over or the value does not fit.
std::optional<double> parse_double(std::string_view text);
std::optional<std::int64_t> parse_int(std::string_view text);

/// Text from outside as a terminal may have it: control bytes, marks that turn the direction of
/// writing and bytes that are not UTF-8 as escapes ("\\x1b", "\\u202e"), so that it cannot move the
/// cursor, set a title or pass for another line. `kept`: control bytes that stay ("\n\t").
std::string printable(std::string_view text, std::string_view kept = {});

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
/// "1, 2, 3": the numbers joined by ", ".
std::string join(std::span<const std::int32_t> values, std::string_view separator = ", ");
std::string join(std::span<const std::int64_t> values, std::string_view separator = ", ");
std::string join(std::span<const std::string> values, std::string_view separator = ", ");

}  // namespace lockstep
