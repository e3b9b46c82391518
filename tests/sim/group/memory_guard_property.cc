// Stand-ins are found by address. What is found is compared with a list that is searched from its begin.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/sim/group/detail/memory/memory_guard.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kBytes = 64;

// As likely from the first case on as in the last.
std::size_t any_below(std::size_t n) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, n));
}

Memory any_part(std::array<std::uint8_t, kBytes>& arena) {
  const std::size_t first = any_below(kBytes);
  const auto most = *rc::gen::element<std::size_t>(2, 4, kBytes);
  const std::size_t n = 1 + any_below(std::min(most, kBytes - first));
  return Memory::of(std::span(arena).subspan(first, n));
}

const std::uint8_t* begin_of(const Memory& memory) {
  return static_cast<const std::uint8_t*>(memory.data);
}

bool contains(const Memory& whole, const Memory& part) {
  return begin_of(whole) <= begin_of(part) &&
         begin_of(part) + part.count <= begin_of(whole) + whole.count;
}

bool overlap(const Memory& a, const Memory& b) {
  return begin_of(a) < begin_of(b) + b.count && begin_of(b) < begin_of(a) + a.count;
}

/// Stand-ins, and those that are open in the order in which they were opened.
class Both {
 public:
  void open(const Memory& memory) {
    StandIn& one = stand_ins_.open(memory, 1);
    one.n_transfers = 1;
    opened_.push_back(&one);
  }

  void close_some() {
    for (std::size_t i = opened_.size(); i-- > 0;) {
      if (!*rc::gen::arbitrary<bool>()) continue;
      opened_[i]->n_transfers = 0;
      opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    stand_ins_.close_unused();
  }

  void look_for(const Memory& memory) {
    const auto first = std::find_if(opened_.begin(), opened_.end(), [&](const StandIn* one) {
      return contains(one->own, memory);
    });
    RC_ASSERT(stand_ins_.find(memory) == (first == opened_.end() ? nullptr : *first));
  }

  void expose(const Memory& memory) {
    std::vector<bool> expected;
    for (const StandIn* one : opened_)
      expected.push_back(one->exposed || overlap(one->own, memory));
    stand_ins_.expose(memory);
    for (std::size_t i = 0; i < opened_.size(); ++i) RC_ASSERT(opened_[i]->exposed == expected[i]);
  }

 private:
  StandIns stand_ins_;
  std::vector<StandIn*> opened_;
};

RC_GTEST_PROP(MemoryGuardProperty, NeighboursByAddressAreThoseThatASearchOfAllFinds, ()) {
  std::array<std::uint8_t, kBytes> arena{};
  Both both;
  const std::size_t n_steps = 1 + any_below(40);
  for (std::size_t step = 0; step < n_steps; ++step) {
    const Memory memory = any_part(arena);
    switch (any_below(5)) {
      case 0:
      case 1:
        both.open(memory);
        break;
      case 2:
        both.close_some();
        break;
      case 3:
        both.expose(memory);
        break;
      default:
        both.look_for(memory);
    }
  }
}

}  // namespace
}  // namespace lockstep::sim
