// What was last recorded of each parameter of a wrapper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/names.h"

namespace lockstep::detail {

/// The last digest by name. Names that come in the order in which they first came are found at once.
class LastDigests {
 public:
  /// Requires: one digest for each name.
  void keep(std::span<const NameId> names, std::span<const std::uint64_t> digests) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t place = place_of(names[i], i);
      if (place == names_.size()) {
        names_.push_back(names[i]);
        digests_.push_back(digests[i]);
      }
      digests_[place] = digests[i];
    }
  }

  /// Where the i-th of `names` has another digest than was last kept, or was never kept.
  bool differs(std::span<const NameId> names, std::size_t i, std::uint64_t digest) const {
    const std::size_t place = place_of(names[i], i);
    return place == names_.size() || digests_[place] != digest;
  }

 private:
  std::size_t place_of(NameId name, std::size_t likely) const {
    if (likely < names_.size() && names_[likely] == name) return likely;
    std::size_t place = 0;
    while (place < names_.size() && names_[place] != name) ++place;
    return place;
  }

  std::vector<NameId> names_;
  std::vector<std::uint64_t> digests_;
};

}  // namespace lockstep::detail
