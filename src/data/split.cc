#include "lockstep/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "lockstep/random/permutation.h"

namespace lockstep::data {
namespace {

Error uneven() {
  return {.message = "Sum of input lengths does not equal the length of the input dataset!",
          .where = ""};
}

std::vector<std::vector<std::int64_t>> cut(Generator& generator,
                                           std::span<const std::int64_t> lengths) {
  const std::vector<std::int64_t> order =
      randperm(generator, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  std::vector<std::vector<std::int64_t>> parts;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    const auto end = at + static_cast<std::ptrdiff_t>(length);
    parts.emplace_back(at, end);
    at = end;
  }
  return parts;
}

}  // namespace

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

Result<std::vector<std::int64_t>> split_lengths(std::int64_t size,
                                                std::span<const double> fractions) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  // Python's math.isclose(sum, 1): relative to the larger of both.
  if (!(sum <= 1.0) || std::abs(sum - 1.0) > 1e-9) return uneven();
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    if (!(fractions[i] >= 0.0) || fractions[i] > 1.0) {
      return Error{.message = "Fraction at index " + std::to_string(i) + " is not between 0 and 1",
                   .where = ""};
    }
    lengths.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fractions[i])));
  }
  const std::int64_t left = size - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < left; ++i) ++lengths[static_cast<std::size_t>(i) % lengths.size()];
  return lengths;
}

Result<std::vector<std::vector<std::int64_t>>> random_split(Generator& generator,
                                                            std::int64_t size,
                                                            std::span<const std::int64_t> lengths) {
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (std::any_of(lengths.begin(), lengths.end(), [](auto n) { return n < 0; })) {
    return Error{.message = "a part cannot have a negative number of samples", .where = ""};
  }
  if (sum == 1 && size != 1) {
    const std::vector<double> fractions(lengths.begin(), lengths.end());
    const auto counts = split_lengths(size, fractions);
    if (!counts.ok()) return counts.error();
    return cut(generator, counts.value());
  }
  if (sum != size) return uneven();
  return cut(generator, lengths);
}

}  // namespace lockstep::data
