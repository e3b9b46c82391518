#include "lockstep/harness/cli/shown_text.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostWaiting = std::size_t{64} << 10U;
constexpr std::string_view kKept = "\n\t";

/// The length of a sequence that chooses a colour at the beginning of `text`, or 0: ESC [ 31 m.
std::size_t color_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

ShownText::ShownText(int file, Escapes escapes)
    : file_(file), escapes_(escapes), most_waiting_(isatty(file) == 1 ? 1 : kMostWaiting) {}

std::string ShownText::shown(std::string_view text) const {
  if (escapes_ == Escapes::kRaw) return std::string(text);
  if (escapes_ == Escapes::kShown) return printable(text, kKept);
  std::string out;
  while (!text.empty()) {
    const std::size_t length = color_length(text);
    out += text.substr(0, length);
    text.remove_prefix(length);
    const std::size_t next = text.find('\x1b', length == 0 ? 1 : 0);
    out += printable(text.substr(0, next), kKept);
    text.remove_prefix(std::min(next, text.size()));
  }
  return out;
}

void ShownText::write_all(std::string_view text) {
  while (!text.empty() && failure_ == 0) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) failure_ = n < 0 ? errno : EIO;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

ShownText::int_type ShownText::overflow(int_type letter) {
  if (traits_type::eq_int_type(letter, traits_type::eof())) return traits_type::not_eof(letter);
  const char text = traits_type::to_char_type(letter);
  return xsputn(&text, 1) == 1 ? letter : traits_type::eof();
}

std::streamsize ShownText::xsputn(const char* text, std::streamsize n) {
  const std::string_view added(text, static_cast<std::size_t>(n));
  const std::size_t last = added.rfind('\n');
  if (last != std::string_view::npos) n_whole_ = waiting_.size() + last + 1;
  waiting_ += added;
  if (waiting_.size() >= most_waiting_ && n_whole_ > 0) {
    // A sequence of bytes is not cut where it could mean something: lines are.
    write_all(shown(std::string_view(waiting_).substr(0, n_whole_)));
    waiting_.erase(0, n_whole_);
    n_whole_ = 0;
  }
  return failure_ == 0 ? n : 0;
}

int ShownText::sync() {
  write_all(shown(waiting_));
  waiting_.clear();
  n_whole_ = 0;
  return failure_ == 0 ? 0 : -1;
}

}  // namespace lockstep::cli
