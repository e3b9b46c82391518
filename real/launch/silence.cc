#include "lockstep/real/launch/silence.h"

#include <filesystem>
#include <fstream>

namespace lockstep::launch {

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
constexpr int kWhileAllRun = 10;

}  // namespace

std::uintmax_t Silence::bytes() const {
  std::error_code failed;
  std::uintmax_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, failed)) {
    const std::uintmax_t size = entry.file_size(failed);
    if (!failed) sum += size;
  }
  return sum;
}

std::optional<std::chrono::seconds> Silence::look(std::int32_t n_ended,
                                                  std::chrono::nanoseconds now) {
  if (limit_.count() == 0 || now < next_look_) return std::nullopt;
  next_look_ = now + kBetweenLooks;
  const std::uintmax_t size = bytes();
  if (size != bytes_ || n_ended != n_ended_) last_sign_ = now;
  bytes_ = size;
  n_ended_ = n_ended;
  const auto silent = now - last_sign_;
  if (silent < (n_ended > 0 ? limit_ : kWhileAllRun * limit_)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::seconds>(silent);
}

Doing doing_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  const char state = name_end == std::string::npos ? '?' : text[name_end + 2];
  if (state == 'T' || state == 't') return Doing::kStopped;
  return state == 'R' ? Doing::kComputing : Doing::kWaiting;
}

std::string_view text_of(Doing doing) {
  switch (doing) {
    case Doing::kStopped:
      return "it is stopped";
    case Doing::kComputing:
      return "it computes";
    case Doing::kWaiting:
      break;
  }
  return "it waits";
}

}  // namespace lockstep::launch
