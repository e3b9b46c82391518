#include "lockstep/harness/cli/progress_line.h"

#include <algorithm>

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kBeforeFirst{300};
constexpr std::chrono::milliseconds kBetween{100};

}  // namespace

ProgressLine::ProgressLine(Terminal& terminal)
    : terminal_(&terminal), next_(Clock::now() + kBeforeFirst) {}

std::ostream& ProgressLine::line() const {
  return terminal_->line == nullptr ? terminal_->err : *terminal_->line;
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_->progress) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetween;
  const std::size_t rest = width_ > text.size() ? width_ - text.size() : 0;
  line() << "\r" << text << std::string(rest, ' ') << std::flush;
  width_ = std::max(width_, text.size());
}

void ProgressLine::count(std::uint64_t done, std::uint64_t total, const std::string& unit) {
  show(std::to_string(done) + " of " + std::to_string(total) + " " + unit);
}

void ProgressLine::clear() {
  if (width_ == 0) return;
  line() << "\r" << std::string(width_, ' ') << "\r" << std::flush;
  width_ = 0;
}

}  // namespace lockstep::cli
