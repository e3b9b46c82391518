// JSON as text, written by hand: one pass, no tree, the same bytes everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Bytes of the UTF-8 sequence that starts at `i`, 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t i);

/// Appends one JSON value after the other to a text; commas come by themselves.
///
/// 64-bit words are strings of 16 hex digits, since many readers keep numbers as doubles; NaN and
/// the infinities are the strings "nan", "inf" and "-inf". Bytes that are not UTF-8 become U+FFFD.
class JsonText {
 public:
  JsonText& open_object() { return open('{'); }

  JsonText& close_object() { return close('}'); }

  JsonText& open_array() { return open('['); }

  JsonText& close_array() { return close(']'); }

  JsonText& key(std::string_view name);

  JsonText& text(std::string_view value);
  JsonText& integer(std::int64_t value);
  JsonText& real(double value);
  JsonText& flag(bool value);
  JsonText& word(std::uint64_t value);
  JsonText& null();

  const std::string& str() const { return out_; }

  void clear();

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  void separate();
  void quote(std::string_view value);
  /// The first `plain` letters stand for themselves.
  void quote_from(std::string_view value, std::size_t plain);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace lockstep
