// What a command prints, between its streams and the terminal or file they lead to.
#pragma once

#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// The one way from text to an open file. Text from outside cannot steer the terminal: bytes that
/// it would act upon are shown as escapes (lockstep/base/text.h). What cannot be written is not
/// forgotten.
///
/// Lines go out together, at the latest when the stream is flushed; at once to a terminal.
class ShownText final : public std::streambuf {
 public:
  enum class Escapes : std::uint8_t {
    kShown,   ///< All control bytes but newlines and tabs are shown.
    kColors,  ///< Those that choose a colour stay.
    kRaw,     ///< All stay: the output of another program.
  };

  ShownText(int file, Escapes escapes);

  ~ShownText() override { (void)sync(); }

  ShownText(const ShownText&) = delete;
  ShownText& operator=(const ShownText&) = delete;
  ShownText(ShownText&&) = delete;
  ShownText& operator=(ShownText&&) = delete;

  /// The system's number for what went wrong first, or 0.
  int failure() const { return failure_; }

 protected:
  int_type overflow(int_type letter) override;
  std::streamsize xsputn(const char* text, std::streamsize n) override;
  int sync() override;

 private:
  void write_all(std::string_view text);
  std::string shown(std::string_view text) const;

  int file_;
  Escapes escapes_;
  std::size_t most_waiting_;
  int failure_ = 0;
  std::string waiting_;
  std::size_t n_whole_ = 0;  // Bytes of it that are whole lines.
};

}  // namespace lockstep::cli
