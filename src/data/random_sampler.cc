#include "lockstep/data/random_sampler.h"

#include <fmt/core.h>
#include <numeric>

#include "lockstep/base/check.h"
#include "lockstep/data/sampler.h"

namespace lockstep::data {

Result<std::vector<std::int64_t>> random_order(Generator& outer,
                                               const RandomSamplerOptions& options) {
  Result<RandomSampler> sampler = RandomSampler::make(options, {.global = &outer});
  if (!sampler.ok()) return sampler.error();
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(options.count));
  sampler.value().begin();
  while (const auto index = sampler.value().next()) out.push_back(*index);
  return out;
}

std::vector<std::int64_t> sequential_order(std::int64_t size) {
  LOCKSTEP_CHECK(size >= 0, fmt::format("an order of {} samples: a size is never negative", size));
  std::vector<std::int64_t> out(static_cast<std::size_t>(size));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace lockstep::data
