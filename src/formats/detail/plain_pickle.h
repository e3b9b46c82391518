// Plain data as a pickle of protocol 2: dictionaries, lists, texts, numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::detail {

/// Appends one value after the other; what is opened is closed. In a dictionary a text, its key, comes
/// before each value.
class PlainPickle {
 public:
  PlainPickle() : out_("\x80\x02") {}

  PlainPickle& open_dict() { return raw("}("); }

  PlainPickle& close_dict() { return raw("u"); }

  PlainPickle& open_list() { return raw("]("); }

  PlainPickle& close_list() { return raw("e"); }

  PlainPickle& none() { return raw("N"); }

  PlainPickle& flag(bool value) { return raw(value ? "\x88" : "\x89"); }

  PlainPickle& text(std::string_view value) {
    raw("X");
    number(value.size(), 4);
    return raw(value);
  }

  PlainPickle& integer(std::int64_t value) {
    raw("\x8a\x08");
    number(static_cast<std::uint64_t>(value), 8);
    return *this;
  }

  /// The whole pickle. Called once.
  std::string finish() {
    raw(".");
    return std::move(out_);
  }

 private:
  PlainPickle& raw(std::string_view opcodes) {
    out_ += opcodes;
    return *this;
  }

  void number(std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xFFU);
  }

  std::string out_;
};

}  // namespace lockstep::detail
