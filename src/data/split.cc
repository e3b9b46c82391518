#include "lockstep/data/split.h"

#include <string>

#include "lockstep/random/permutation.h"

namespace lockstep::data {

Result<Split> holdout_split(std::int64_t size, std::int64_t holdout, std::int64_t seed) {
  if (size < 0 || holdout < 0 || holdout > size) {
    return Error{.message = "cannot hold out " + std::to_string(holdout) + " of " +
                            std::to_string(size) + " samples",
                 .where = ""};
  }
  Generator generator(static_cast<std::uint64_t>(seed));
  const std::vector<std::int64_t> order = randperm(generator, size);
  const auto cut = order.begin() + static_cast<std::ptrdiff_t>(size - holdout);
  return Split{.train = {order.begin(), cut}, .holdout = {cut, order.end()}};
}

}  // namespace lockstep::data
