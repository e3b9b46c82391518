#include "lockstep/compare/detail/digest_tree.h"

#include <algorithm>
#include <bit>

#include "lockstep/base/check.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::laws {

namespace {

/// Whether all trees have the same digest somewhere. Counts comparisons up to the first difference.
template <typename DigestOf>
bool same_everywhere(std::span<const DigestTree* const> trees,
                     TreeSearch& search,
                     DigestOf digest_of) {
  const std::uint64_t wanted = digest_of(*trees.front());
  for (const DigestTree* const tree : trees.subspan(1)) {
    ++search.n_comparisons;
    if (digest_of(*tree) != wanted) return false;
  }
  return true;
}

}  // namespace

std::uint64_t join_digests(std::uint64_t left, std::uint64_t right) {
  return mix64(left + kGolden64 * (std::rotl(right, 29) + 1)) | 1U;
}

std::size_t tree_height(std::size_t n_leaves) {
  return n_leaves < 2 ? 0 : static_cast<std::size_t>(std::bit_width(n_leaves - 1));
}

void DigestTree::add_step(std::span<const std::uint64_t> leaves) {
  Step step{nodes_.size(), leaves.size(), 0};
  nodes_.insert(nodes_.end(), leaves.begin(), leaves.end());
  std::size_t below = step.first_node;
  for (std::size_t n = leaves.size(); n > 1; n = (n + 1) / 2) {
    const std::size_t end = below + n;
    for (std::size_t i = below; i < end; i += 2) {
      nodes_.push_back(join_(nodes_[i], i + 1 < end ? nodes_[i + 1] : 0));
    }
    below = end;
  }
  const std::uint64_t root = leaves.empty() ? 1 : nodes_.back();
  const std::uint64_t before = steps_.empty() ? 1 : steps_.back().prefix;
  step.prefix = join_digests(join_digests(before, root), leaves.size());
  steps_.push_back(step);
}

std::size_t DigestTree::n_leaves(std::size_t step) const {
  return step < steps_.size() ? steps_[step].n_leaves : 0;
}

std::uint64_t DigestTree::prefix(std::size_t step) const {
  return step < steps_.size() ? steps_[step].prefix : 0;
}

std::uint64_t DigestTree::node(std::size_t step, std::size_t height, std::size_t index) const {
  if (n_leaves(step) == 0) return 0;
  std::size_t first = steps_[step].first_node;
  std::size_t n = steps_[step].n_leaves;
  std::size_t level = 0;
  for (; level < height && n > 1; ++level) {
    first += n;
    n = (n + 1) / 2;
  }
  if (index >= n) return 0;
  std::uint64_t digest = nodes_[first + index];
  for (; level < height; ++level) digest = join_(digest, 0);  // Above its own root.
  return digest;
}

TreeSearch first_difference_of(std::span<const DigestTree* const> trees) {
  LOCKSTEP_CHECK(!trees.empty(), "a comparison needs something to compare");
  TreeSearch search;
  std::size_t equal_up_to = 0;  // Steps known to be equal.
  std::size_t differs_at = 0;   // The first step known to differ, or the number of steps.
  for (const DigestTree* const tree : trees) differs_at = std::max(differs_at, tree->n_steps());
  const std::size_t n_steps = differs_at;
  while (equal_up_to < differs_at) {
    const std::size_t middle = equal_up_to + (differs_at - equal_up_to) / 2;
    const auto prefix = [&](const DigestTree& tree) { return tree.prefix(middle); };
    if (same_everywhere(trees, search, prefix)) {
      equal_up_to = middle + 1;
    } else {
      differs_at = middle;
    }
  }
  if (differs_at == n_steps) return search;

  TreePlace place{differs_at, 0};
  std::size_t height = 0;
  for (const DigestTree* const tree : trees) {
    height = std::max(height, tree_height(tree->n_leaves(place.step)));
  }
  while (height-- > 0) {
    place.leaf *= 2;
    const auto left = [&](const DigestTree& tree) {
      return tree.node(place.step, height, place.leaf);
    };
    if (same_everywhere(trees, search, left)) ++place.leaf;
  }
  search.first = place;
  return search;
}

}  // namespace lockstep::laws
