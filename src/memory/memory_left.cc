#include "lockstep/memory/memory_left.h"

#include <algorithm>
#include <fstream>
#include <new>
#include <string_view>

namespace lockstep {

namespace {

/// The number that a file consists of; nothing of the word "max", a limit that limits nothing.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number of `key` in a file of lines "key number".
std::optional<std::uint64_t> number_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  for (std::string word; file >> word;) {
    if (word == key && file >> number) return number;
  }
  return std::nullopt;
}

std::uint64_t less(std::uint64_t from, std::uint64_t what) { return from - std::min(from, what); }

/// What one control group leaves: its limit, less what is in use and cannot be given up.
std::optional<std::uint64_t> left_in_group(const std::string& limit,
                                           const std::string& used,
                                           const std::string& statistics) {
  const std::optional<std::uint64_t> most = number_in(limit);
  const std::optional<std::uint64_t> in_use = number_in(used);
  if (!most || !in_use) return std::nullopt;
  const std::uint64_t cached = number_in(statistics, "active_file").value_or(0) +
                               number_in(statistics, "inactive_file").value_or(0);
  return less(*most, less(*in_use, cached));
}

void take_lesser(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> other) {
  if (other) least = std::min(least.value_or(*other), *other);
}

/// The group at `path` below `mount` and those above it, as far as they are visible from here.
std::optional<std::uint64_t> left_in_groups(const std::string& mount,
                                            std::string path,
                                            const std::string& limit,
                                            const std::string& used) {
  std::optional<std::uint64_t> least;
  for (;; path.resize(path.rfind('/'))) {
    const std::string group = mount + path + "/memory.";
    take_lesser(least, left_in_group(group + limit, group + used, group + "stat"));
    if (path.rfind('/') == std::string::npos) return least;
  }
}

std::optional<std::uint64_t> left_in_machine(const std::string& meminfo) {
  const std::optional<std::uint64_t> kib = number_in(meminfo, "MemAvailable:");
  if (!kib) return std::nullopt;
  return (*kib + number_in(meminfo, "SwapFree:").value_or(0)) * 1024;
}

}  // namespace

std::optional<std::uint64_t> memory_left(const std::string& root) {
  std::optional<std::uint64_t> least = left_in_machine(root + "/proc/meminfo");
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "ID:CONTROLLERS:PATH"
    const std::size_t path = line.rfind(":/");
    if (path == std::string::npos) continue;
    const std::string group = line.substr(path + 1);
    if (line.starts_with("0:")) {
      take_lesser(least, left_in_groups(mount, group, "max", "current"));
    } else if (line.find(":memory:") != std::string::npos) {
      take_lesser(least,
                  left_in_groups(mount + "/memory", group, "limit_in_bytes", "usage_in_bytes"));
    }
  }
  return least;
}

std::optional<std::uint64_t> memory_left() { return memory_left({}); }

void require_memory(std::size_t bytes) {
  const std::optional<std::uint64_t> left = memory_left();
  if (left && *left < bytes) throw std::bad_alloc();
}

void GrowthGuard::ask(std::size_t bytes) {
  const std::optional<std::uint64_t> left = left_();
  const std::uint64_t untouched = std::max<std::uint64_t>(bytes, kInterval);
  if (!left || *left >= untouched + held_ / 4) {
    next_question_ = held_ + kInterval;
    return;
  }
  held_ -= bytes;
  next_question_ = 2 * held_;
  throw std::bad_alloc();
}

}  // namespace lockstep
