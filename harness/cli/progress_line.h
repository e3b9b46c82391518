// The progress of long work, for a reader of stderr.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {

/// One line of a terminal that is written over and over, and gone in the end.
///
/// Nothing is printed when stderr is not a terminal, and nothing for work that is done soon. No
/// colours, no escape sequences.
class ProgressLine {
 public:
  explicit ProgressLine(Terminal& terminal);

  ~ProgressLine() { clear(); }

  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ProgressLine(ProgressLine&&) = delete;
  ProgressLine& operator=(ProgressLine&&) = delete;

  bool is_on() const { return terminal_->progress; }

  /// Shows `text` instead of what is there, unless that is too new to have been read.
  void show(const std::string& text);
  /// "12 of 1000 runs"
  void count(std::uint64_t done, std::uint64_t total, const std::string& unit);
  /// Leaves an empty line, for what comes next.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::ostream& line() const;

  Terminal* terminal_;
  Clock::time_point next_;
  std::size_t width_ = 0;  ///< Of what is there.
};

}  // namespace lockstep::cli
