// Numbers and texts one after another, little-endian, without padding.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lockstep::sim {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "numbers are copied as they lie in memory");

class Packer {
 public:
  template <typename T>
  Packer& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }

  Packer& text(std::string_view value) {
    bytes_.append(value);
    return *this;
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a Packer wrote; whatever it did not write makes it fail, once and for all.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    T value{};
    if (!has(sizeof value)) return value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }

  std::string text(std::size_t n_bytes) {
    if (!has(n_bytes)) return {};
    std::string value(rest_.substr(0, n_bytes));
    rest_.remove_prefix(n_bytes);
    return value;
  }

  std::string rest() { return text(rest_.size()); }

  /// One of the first `n` values of an enum.
  template <typename Choice>
  Choice choice(int n) {
    const auto value = get<std::uint8_t>();
    if (value >= n) failed_ = true;
    return static_cast<Choice>(value);
  }

  /// Whether `n` items of this size can be there. False: it fails.
  bool has(std::uint64_t n, std::size_t bytes_each = 1) {
    if (failed_ || n > rest_.size() / bytes_each) failed_ = true;
    return !failed_;
  }

  bool failed() const { return failed_; }

  bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace lockstep::sim
