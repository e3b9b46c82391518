// How long ranks have done nothing that could be seen.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace lockstep::launch {

/// Stands still while its owner does. A launcher that was stopped and continued (Ctrl-Z, fg), or whose virtual
/// machine was, has seen nothing meanwhile, and mostly its ranks stood still as well: that time proves nothing
/// about them.
class WatchedClock {
 public:
  using Real = std::chrono::steady_clock;

  /// More than `most_per_look` between two looks counts as `most_per_look`.
  explicit WatchedClock(std::chrono::nanoseconds most_per_look,
                        Real::time_point start = Real::now())
      : most_per_look_(most_per_look), last_look_(start) {}

  void look(Real::time_point real = Real::now()) {
    now_ += std::min<std::chrono::nanoseconds>(real - last_look_, most_per_look_);
    last_look_ = real;
  }

  /// Watched until the last look.
  std::chrono::nanoseconds now() const { return now_; }

 private:
  std::chrono::nanoseconds most_per_look_;
  Real::time_point last_look_;
  std::chrono::nanoseconds now_{};
};

/// Watches the growth of a folder of traces and the ends of ranks.
///
/// Ranks of a job wait for one another, so once one has ended, the others either end too or make
/// progress; `limit` bounds how long neither happens. While all run, one may compute for long, and
/// the bound is ten times that.
class Silence {
 public:
  /// `limit` 0: never too long.
  Silence(std::chrono::milliseconds limit, std::string folder)
      : limit_(limit), folder_(std::move(folder)) {}

  /// Looks, `now` of a clock. Returns for how long there was no sign when that is too long.
  std::optional<std::chrono::seconds> look(std::int32_t n_ended, std::chrono::nanoseconds now);

 private:
  std::uintmax_t bytes() const;

  std::chrono::milliseconds limit_;
  std::string folder_;
  std::uintmax_t bytes_ = 0;
  std::int32_t n_ended_ = 0;
  std::chrono::nanoseconds last_sign_{};
  std::chrono::nanoseconds next_look_{};
};

/// What a process does at this moment.
enum class Doing : std::uint8_t { kStopped, kComputing, kWaiting };

Doing doing_of(pid_t pid);
/// "it is stopped", "it computes", "it waits".
std::string_view text_of(Doing doing);

}  // namespace lockstep::launch
