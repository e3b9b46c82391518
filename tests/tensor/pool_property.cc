#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/tensor/pool.h"

namespace lockstep {
namespace {

struct Live {
  unsigned char* block;
  std::size_t bytes;
  unsigned char mark;
};

bool intact(const Live& live) {
  for (std::size_t i = 0; i < live.bytes; ++i) {
    if (live.block[i] != live.mark) return false;
  }
  return true;
}

// Every block keeps what was written into it whatever else is allocated and released.
RC_GTEST_PROP(PoolProperty, LiveBlocksNeverOverlap, ()) {
  Pool pool;
  std::vector<Live> live;

  for (const int draw : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 9000))) {
    if (draw % 3 == 0 && !live.empty()) {
      const std::size_t i = static_cast<std::size_t>(draw) % live.size();
      RC_ASSERT(intact(live[i]));
      pool.release(live[i].block, live[i].bytes);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      const auto bytes = static_cast<std::size_t>(draw + 1);
      auto* const block = static_cast<unsigned char*>(pool.allocate(bytes));
      live.push_back({block, bytes, static_cast<unsigned char>(live.size() * 37 + bytes)});
      std::memset(block, live.back().mark, bytes);
    }
  }

  for (const Live& block : live) RC_ASSERT(intact(block));
}

}  // namespace
}  // namespace lockstep
