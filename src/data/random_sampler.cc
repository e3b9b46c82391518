#include "lockstep/data/random_sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/random/permutation.h"

namespace lockstep::data {
namespace {

std::int64_t draw_below(Generator& generator, std::int64_t bound) {
  const auto range = static_cast<std::uint64_t>(bound);
  const bool wide = range >= (std::uint64_t{1} << 32U);
  const std::uint64_t draw = wide ? generator.random64() : generator.random();
  return static_cast<std::int64_t>(draw % range);
}

}  // namespace

Result<std::vector<std::int64_t>> random_order(Generator& outer,
                                               const RandomSamplerOptions& options) {
  if (options.count <= 0) {
    return Error{.message = "num_samples should be a positive integer value, but got num_samples=" +
                            std::to_string(options.count),
                 .where = ""};
  }
  if (options.size <= 0) {
    return Error{
        .message = "cannot sample from a data set of " + std::to_string(options.size) + " samples",
        .where = ""};
  }
  Generator generator(outer.random64() & 0x7fffffffffffffffULL);
  std::vector<std::int64_t> out(static_cast<std::size_t>(options.count));
  if (options.replacement) {
    for (std::int64_t& index : out) index = draw_below(generator, options.size);
    return out;
  }
  std::vector<std::int64_t> round(static_cast<std::size_t>(options.size));
  for (std::size_t first = 0; first < out.size(); first += round.size()) {
    randperm(generator, round);
    const std::size_t n = std::min(round.size(), out.size() - first);
    std::copy_n(round.begin(), n, out.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return out;
}

std::vector<std::int64_t> sequential_order(std::int64_t size) {
  LOCKSTEP_CHECK(size >= 0, "an order has at least no samples");
  std::vector<std::int64_t> out(static_cast<std::size_t>(size));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace lockstep::data
