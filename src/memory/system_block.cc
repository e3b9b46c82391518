#include "lockstep/memory/system_block.h"

#include <new>
#include <sys/mman.h>

namespace lockstep {

namespace {

constexpr std::size_t kCacheLine = 64;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : kCacheLine};
}

}  // namespace

void SystemBlockRelease::operator()(std::byte* block) const {
  ::operator delete(block, alignment_of(bytes));
}

SystemBlock make_system_block(std::size_t bytes) {
  void* const block = ::operator new(bytes, alignment_of(bytes));
  if (bytes >= kHugePage) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(block), SystemBlockRelease{bytes}};
}

}  // namespace lockstep
