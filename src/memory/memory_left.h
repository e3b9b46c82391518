// How much memory is left, asked before the kernel hands out what it does not have and then kills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The least of what the machine has available and what the control groups of this process leave of
/// their limits (both versions); nothing where the system does not say. Cached files count as free,
/// since the kernel gives them up. `root` stands before /proc and /sys, for tests.
std::optional<std::uint64_t> memory_left(const std::string& root);

/// That of this machine.
std::optional<std::uint64_t> memory_left();

/// Before one large block is taken.
/// Throws std::bad_alloc unless that much is left.
void require_memory(std::size_t bytes);

/// Watches what grows as long as a run does, and asks every 32 MiB.
///
/// A quarter of what is held must stay free for those who read it. After a refusal it is silent
/// until twice as much is held: a world that is taken down records how its ranks ended.
class GrowthGuard {
 public:
  using MemoryLeft = std::optional<std::uint64_t> (*)();

  explicit GrowthGuard(MemoryLeft left = &memory_left) : left_(left) {}

  /// Before `bytes` are allocated.
  /// Throws std::bad_alloc if they should not be.
  void add(std::size_t bytes) {
    held_ += bytes;
    if (held_ >= next_question_) ask(bytes);
  }

  void release(std::size_t bytes) { held_ -= bytes; }

 private:
  static constexpr std::uint64_t kInterval = std::uint64_t{32} << 20U;

  void ask(std::size_t bytes);

  MemoryLeft left_;
  std::uint64_t held_ = 0;
  std::uint64_t next_question_ = kInterval;
};

}  // namespace lockstep
