#include "lockstep/sim/engine/detail/stacks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <sys/mman.h>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

constexpr std::int32_t kMostMappings = 16'384;  // Half of what Linux allows a process, two each.

}  // namespace

Stacks::Stacks(std::size_t bytes, std::int32_t n_guarded)
    : pitch_((std::max(bytes, 4 * kStackPage) + kStackPage - 1) / kStackPage * kStackPage),
      n_guarded_(n_guarded) {}

Stacks::~Stacks() {
  for (std::byte* chunk : chunks_) munmap(chunk, kStacksPerChunk * pitch_);
}

void Stacks::add() {
  if (static_cast<std::size_t>(n_stacks_) == chunks_.size() * kStacksPerChunk) {
    const std::size_t bytes = kStacksPerChunk * pitch_;
    void* chunk = mmap(nullptr,
                       bytes,
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                       -1,
                       0);
    LOCKSTEP_CHECK(chunk != MAP_FAILED,
                   "no address space for the stacks of " + std::to_string(n_stacks_ + 1) +
                       " ranks or more, of " + std::to_string(pitch_) + " bytes each");
    madvise(chunk, bytes, MADV_NOHUGEPAGE);
    chunks_.push_back(static_cast<std::byte*>(chunk));
  }
  const std::int32_t index = n_stacks_++;
  if (!is_guarded(index)) return;
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, which takes no mapping of its own.
  if (madvise(bottom(index), kStackPage, kGuardInstall) == 0) return;
  // The kernel limits the number of mappings; beyond it the engine's own check must do.
  const bool allowed = index < kMostMappings;
  if (!allowed || mprotect(bottom(index), kStackPage, PROT_NONE) != 0) n_guarded_ = index;
}

std::int32_t Stacks::guarded_by(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(chunks_[i]);
    if (at < begin || at >= begin + kStacksPerChunk * pitch_) continue;
    const auto index = static_cast<std::int32_t>(i * kStacksPerChunk + (at - begin) / pitch_);
    return (at - begin) % pitch_ < kStackPage && is_guarded(index) ? index : -1;
  }
  return -1;
}

bool Stacks::is_overrun(std::int32_t index) const {
  // Throwing on what is left of a stack reaches into this page, but not to its end.
  static constexpr std::array<std::byte, kStackPage / 4> kZeros{};
  return std::memcmp(bottom(index), kZeros.data(), kZeros.size()) != 0;
}

}  // namespace lockstep::sim
