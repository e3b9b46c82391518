// Replaces the program's operators new and delete by ones that count. Include it in one file of a
// test program: the one place where a mutable global is the only seam the language offers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace lockstep::testing {

/// Of this thread.
inline std::int64_t& n_allocations() {
  thread_local std::int64_t n = 0;
  return n;
}

}  // namespace lockstep::testing

// All forms that the library uses, or a sanitizer's own would mix with ours.
// NOLINTBEGIN(cppcoreguidelines-no-malloc, misc-definitions-in-headers)
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++lockstep::testing::n_allocations();
  return std::malloc(bytes);
}

void* operator new(std::size_t bytes) {
  if (void* block = operator new(bytes, std::nothrow)) return block;
  throw std::bad_alloc();
}

void operator delete(void* block) noexcept { std::free(block); }

void operator delete(void* block, std::size_t /*bytes*/) noexcept { std::free(block); }

void operator delete(void* block, const std::nothrow_t& /*tag*/) noexcept { std::free(block); }

// NOLINTEND(cppcoreguidelines-no-malloc, misc-definitions-in-headers)
