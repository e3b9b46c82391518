#include "lockstep/real/host/real_host.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace lockstep {

RealHost::RealHost(Rank rank, FileSystem& files, Variables said)
    : rank_(rank), files_(&files), said_(std::move(said)) {}

VirtualTime RealHost::now() const {
  const auto span = std::chrono::steady_clock::now() - start_;
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(span).count()};
}

void RealHost::sleep(Duration span) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec left{.tv_sec = span.ns / kSecond, .tv_nsec = span.ns % kSecond};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

std::optional<std::string> RealHost::environment(std::string_view name) const {
  // The environment is never written once the ranks run.
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value != nullptr) return std::string(value);
  const auto found = std::ranges::find(said_, name, &Variables::value_type::first);
  if (found == said_.end()) return std::nullopt;
  return found->second;
}

void RealHost::log(std::string_view line) {
  std::fprintf(stderr,
               "[rank %d] %.*s\n",
               static_cast<int>(to_int(rank_)),
               static_cast<int>(line.size()),
               line.data());
}

std::shared_ptr<const void> RealHost::ProcessMemo::get(
    std::string_view key, const std::function<std::shared_ptr<const void>()>& make) {
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  std::shared_ptr<const void> value = make();
  values_.emplace(key, value);
  return value;
}

}  // namespace lockstep
