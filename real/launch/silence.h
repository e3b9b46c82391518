// How long ranks have done nothing that could be seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace lockstep::launch {

/// Watches the growth of a folder of traces and the ends of ranks.
///
/// Ranks of a job wait for one another, so once one has ended, the others either end too or make
/// progress; `limit` bounds how long neither happens. While all run, one may compute for long, and
/// the bound is ten times that.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limit` 0: never too long.
  Silence(std::chrono::milliseconds limit, std::string folder)
      : limit_(limit), folder_(std::move(folder)) {}

  /// Looks now. Returns for how long there was no sign when that is too long.
  std::optional<std::chrono::seconds> look(std::int32_t n_ended);

 private:
  std::uintmax_t bytes() const;

  std::chrono::milliseconds limit_;
  std::string folder_;
  std::uintmax_t bytes_ = 0;
  std::int32_t n_ended_ = 0;
  Clock::time_point last_sign_ = Clock::now();
  Clock::time_point next_look_ = Clock::now();
};

/// What a process does at this moment.
enum class Doing : std::uint8_t { kStopped, kComputing, kWaiting };

Doing doing_of(pid_t pid);
/// "it is stopped", "it computes", "it waits".
std::string_view text_of(Doing doing);

}  // namespace lockstep::launch
