#include "lockstep/sim/fiber/detail/stacks.h"

#include <algorithm>
#include <sys/mman.h>

#include "lockstep/base/check.h"

namespace lockstep::sim {

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
    LOCKSTEP_CHECK(chunk != MAP_FAILED, "no address space left for the stacks of this many ranks");
    madvise(chunk, bytes, MADV_NOHUGEPAGE);
    chunks_.push_back(static_cast<std::byte*>(chunk));
  }
  const std::int32_t index = n_stacks_++;
  if (index >= n_guarded_) return;
  // The kernel limits the number of mappings; beyond it the engine's own check must do.
  if (mprotect(bottom(index), kStackPage, PROT_NONE) != 0) n_guarded_ = index;
}

}  // namespace lockstep::sim
