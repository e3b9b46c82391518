// Digests of everything one side did, arranged so that two sides find their first difference in a
// number of comparisons that grows with the logarithm of what they did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::laws {

/// The digest of a pair of nodes. Never 0, which stands for "nothing there".
std::uint64_t join_digests(std::uint64_t left, std::uint64_t right);

/// Steps in order, each a list of leaves. Of each step it keeps a digest of everything up to its
/// end, and a binary tree over its leaves (R. C. Merkle, A Digital Signature Based on a
/// Conventional Encryption Function, 1987).
class DigestTree {
 public:
  using Join = std::uint64_t (*)(std::uint64_t left, std::uint64_t right);

  explicit DigestTree(Join join = join_digests) : join_(join) {}

  /// Requires: no leaf is 0.
  void add_step(std::span<const std::uint64_t> leaves);

  std::size_t n_steps() const { return steps_.size(); }

  /// 0 for a step that is not there.
  std::size_t n_leaves(std::size_t step) const;

  /// Of all steps up to and with `step`; 0 for a step that is not there.
  std::uint64_t prefix(std::size_t step) const;

  /// The node that covers the leaves [index << height, (index + 1) << height) of a step; 0 where
  /// there are none. Defined for any height, so that trees of unequal sizes can be compared.
  std::uint64_t node(std::size_t step, std::size_t height, std::size_t index) const;

 private:
  struct Step {
    std::size_t first_node = 0;  // Leaves first, then each level above them.
    std::size_t n_leaves = 0;
    std::uint64_t prefix = 0;
  };

  Join join_;
  std::vector<std::uint64_t> nodes_;
  std::vector<Step> steps_;
};

/// The height of a tree over this many leaves: ceil(log2(n)), 0 for one leaf or none.
std::size_t tree_height(std::size_t n_leaves);

/// One leaf.
struct TreePlace {
  std::size_t step = 0;
  std::size_t leaf = 0;
  friend bool operator==(const TreePlace&, const TreePlace&) = default;
};

struct TreeSearch {
  std::optional<TreePlace> first;  ///< The first leaf that is not the same everywhere.
  std::int64_t n_comparisons = 0;  ///< Of one digest with another.
};

/// Compares trees, at least one. With two trees of at most S steps of at most L leaves it makes at
/// most ceil(log2(S + 1)) + ceil(log2(L)) comparisons; with k trees at most k - 1 times as many.
TreeSearch first_difference_of(std::span<const DigestTree* const> trees);

}  // namespace lockstep::laws
