#include "lockstep/data/distributed_sampler.h"

#include <limits>
#include <string>

#include "lockstep/base/host.h"
#include "lockstep/random/permutation.h"

namespace lockstep::data {
namespace {

using Permutation = std::vector<std::int64_t>;

std::shared_ptr<const Permutation> permutation(std::int64_t size, std::uint64_t seed, Memo* memo) {
  const auto draw = [size, seed]() -> std::shared_ptr<const void> {
    Generator generator(seed);
    return std::make_shared<const Permutation>(randperm(generator, size));
  };
  if (memo == nullptr) return std::static_pointer_cast<const Permutation>(draw());
  // The low 32 bits are all the generator uses, so seeds that agree in them share the permutation.
  const std::string key = "data.permutation size=" + std::to_string(size) +
                          " seed=" + std::to_string(seed & 0xffffffffU);
  return std::static_pointer_cast<const Permutation>(memo->get(key, draw));
}

}  // namespace

Result<DistributedSampler> DistributedSampler::make(const DistributedSamplerOptions& options) {
  const std::int64_t replicas = options.replicas;
  if (options.rank >= replicas || options.rank < 0) {
    const std::int64_t last =
        replicas == std::numeric_limits<std::int64_t>::min() ? replicas : replicas - 1;
    return Error{.message = "Invalid rank " + std::to_string(options.rank) +
                            ", rank should be in the interval [0, " + std::to_string(last) + "]",
                 .where = ""};
  }
  if (options.size < 0) {
    return Error{.message = "a data set cannot have " + std::to_string(options.size) + " samples",
                 .where = ""};
  }
  const std::int64_t whole = options.size / replicas;
  const bool padded = !options.drop_last && options.size % replicas != 0;
  const std::int64_t length = whole + (padded ? 1 : 0);
  if (length > std::numeric_limits<std::int64_t>::max() / replicas) {
    return Error{.message = "the padded sample count does not fit 64 bits", .where = ""};
  }
  return DistributedSampler(options, length);
}

EpochOrder DistributedSampler::order(Memo* memo) const {
  if (!options_.shuffle) return {nullptr, options_.size};
  // Unsigned, because wrapping is meant.
  const std::uint64_t seed =
      static_cast<std::uint64_t>(options_.seed) + static_cast<std::uint64_t>(epoch_);
  return {permutation(options_.size, seed, memo), options_.size};
}

void DistributedSampler::indices(std::vector<std::int64_t>& out, Memo* memo) const {
  const EpochOrder epoch_order = order(memo);
  out.resize(static_cast<std::size_t>(length_));
  std::int64_t place = options_.rank;
  for (std::int64_t& index : out) {
    index = epoch_order.at(place);
    place += options_.replicas;
  }
}

void DistributedSampler::global_order(std::vector<std::int64_t>& out, Memo* memo) const {
  const EpochOrder epoch_order = order(memo);
  out.resize(static_cast<std::size_t>(total()));
  std::int64_t place = 0;
  for (std::int64_t& index : out) index = epoch_order.at(place++);
}

}  // namespace lockstep::data
