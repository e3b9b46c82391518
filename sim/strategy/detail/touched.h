// What one action touched.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// A small set of objects. Most pairs of sets have nothing in common, which a word of hashes shows.
class Touched {
 public:
  void clear() {
    objects_.clear();
    hashes_ = 0;
    everything_ = false;
  }

  void add(std::uint64_t object) {
    if (object == 0) return;
    if (object == kEverything) everything_ = true;
    const std::uint64_t bit = std::uint64_t{1} << ((object * 0x9e3779b97f4a7c15U) >> 58U);
    if ((hashes_ & bit) != 0) {
      for (const std::uint64_t known : objects_) {
        if (known == object) return;
      }
    }
    hashes_ |= bit;
    objects_.push_back(object);
  }

  bool conflicts_with(const Touched& other) const {
    if (everything_ || other.everything_) return true;
    if ((hashes_ & other.hashes_) == 0) return false;
    for (const std::uint64_t mine : objects_) {
      for (const std::uint64_t theirs : other.objects_) {
        if (mine == theirs) return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::uint64_t> objects_;
  std::uint64_t hashes_ = 0;
  bool everything_ = false;
};

}  // namespace lockstep::sim
