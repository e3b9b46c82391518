// Large memory from the system.
#pragma once

#include <cstddef>
#include <memory>

namespace lockstep {

/// What a huge page of x86-64 and of most others holds.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

/// Gives a block back. `bytes`: what it was made with.
struct SystemBlockRelease {
  std::size_t bytes = 0;

  void operator()(std::byte* block) const;
};

/// Memory that goes back to the system when the owner goes.
using SystemBlock = std::unique_ptr<std::byte, SystemBlockRelease>;

/// Makes a block, contents unspecified, aligned to 64 bytes. One that holds a huge page or more begins
/// with one and asks the kernel for them: touching much memory 4 KiB at a time costs as much as writing
/// it, and it lies on more pages than any TLB has entries for. That the kernel refuses changes nothing.
///
/// Throws std::bad_alloc where there is no address space.
SystemBlock make_system_block(std::size_t bytes);

}  // namespace lockstep
