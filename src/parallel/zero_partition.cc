#include "lockstep/parallel/zero_partition.h"

#include <algorithm>
#include <fmt/core.h>
#include <numeric>

#include "lockstep/base/check.h"

namespace lockstep {

ZeroPartition partition_parameters(std::span<const std::vector<std::int64_t>> group_sizes,
                                   std::int32_t n_ranks) {
  LOCKSTEP_CHECK(n_ranks > 0,
                 fmt::format("a partition over {} ranks: there is at least one", n_ranks));
  const auto n = static_cast<std::size_t>(n_ranks);
  ZeroPartition partition(n, std::vector<std::vector<std::size_t>>(group_sizes.size()));
  std::vector<std::int64_t> held(n);
  std::size_t first = 0;
  for (std::size_t g = 0; g < group_sizes.size(); ++g) {
    const std::vector<std::int64_t>& sizes = group_sizes[g];
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&sizes](std::size_t a, std::size_t b) {
      return sizes[a] > sizes[b];
    });
    for (const std::size_t i : order) {
      const auto lightest = std::min_element(held.begin(), held.end());
      *lightest += sizes[i];
      partition[static_cast<std::size_t>(lightest - held.begin())][g].push_back(first + i);
    }
    first += sizes.size();
  }
  return partition;
}

}  // namespace lockstep
