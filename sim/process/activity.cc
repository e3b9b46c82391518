#include "lockstep/sim/process/activity.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/syscall.h>
#include <system_error>
#include <vector>

namespace lockstep::sim {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProcesses = 1024;  // Of one family: /proc changes while we read it.

// Linux's numbers, whose header C++ programs should not include.
constexpr unsigned long kFutexWait = 0;        // NOLINT(google-runtime-int): what /proc prints.
constexpr unsigned long kFutexWaitBitset = 9;  // NOLINT(google-runtime-int)
constexpr unsigned long kFutexCommand = 127;   // NOLINT(google-runtime-int)

std::string contents_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// 'R', 'S', 'D', ...; 0: it is gone. The name before it is in brackets and may hold anything.
char state_of(const fs::path& task) {
  const std::string stat = contents_of(task / "stat");
  const std::size_t end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? '\0' : stat[end + 2];
}

std::uint64_t switches_of(const fs::path& task) {
  std::ifstream status(task / "status");
  std::uint64_t n = 0;
  std::string line;
  while (std::getline(status, line)) {
    const std::size_t at = line.find("ctxt_switches:");
    if (at != std::string::npos) n += std::stoull(line.substr(line.find(':') + 1));
  }
  return n;
}

// The line: the call's number and its six arguments, in hexadecimal.
bool waits_for_a_thread(const fs::path& task) {
  std::istringstream line(contents_of(task / "syscall"));
  std::int64_t number = -1;
  if (!(line >> number) || number != SYS_futex) return false;
  unsigned long arguments[4] = {};  // NOLINT(google-runtime-int): what /proc prints.
  for (auto& argument : arguments) {
    if (!(line >> std::hex >> argument)) return false;
  }
  const auto command = arguments[1] & kFutexCommand;
  return (command == kFutexWait || command == kFutexWaitBitset) && arguments[3] == 0;
}

void look_at_thread(const fs::path& task, Activity& activity, std::vector<int>& family) {
  const char state = state_of(task);
  if (state == '\0' || state == 'Z' || state == 'X') return;
  if (state != 'S' && state != 'T' && state != 't') activity.asleep = false;
  activity.n_switches += switches_of(task);
  activity.needs_a_thread = activity.needs_a_thread && waits_for_a_thread(task);
  std::istringstream children(contents_of(task / "children"));
  for (int child = 0; children >> child;) family.push_back(child);
}

}  // namespace

Activity look_at(int pid) {
  Activity activity{.known = false, .asleep = true, .needs_a_thread = true};
  std::vector<int> family{pid};
  for (std::size_t i = 0; i < family.size() && i < kMostProcesses; ++i) {
    std::error_code gone;
    fs::directory_iterator task("/proc/" + std::to_string(family[i]) + "/task", gone);
    if (gone) continue;
    if (i == 0) activity.known = true;
    for (; task != fs::directory_iterator(); task.increment(gone)) {
      if (gone) break;
      look_at_thread(task->path(), activity, family);
    }
  }
  return activity;
}

}  // namespace lockstep::sim
