#include "lockstep/data/distributed_sampler.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "lockstep/base/host.h"
#include "lockstep/comm/rank_context.h"
#include "lockstep/data/detail/pass_record.h"
#include "lockstep/random/permutation.h"
#include "lockstep/tensor/digest.h"

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

/// Errors: std::invalid_argument.
DistributedSampler made_for(const RankContext& context, const RankSamplerOptions& options) {
  Result<DistributedSampler> made =
      DistributedSampler::make({.size = options.size,
                                .replicas = options.replicas.value_or(context.world_size()),
                                .rank = options.rank.value_or(context.rank()),
                                .shuffle = options.shuffle,
                                .seed = options.seed,
                                .drop_last = options.drop_last});
  if (!made.ok()) throw std::invalid_argument(made.error().text());
  return std::move(made).value();
}

// The digest of the global order costs as much as drawing it; ranks share one through the memo.
std::uint64_t order_digest(const DistributedSampler& sampler, Memo* memo) {
  const auto compute = [&]() -> std::shared_ptr<const void> {
    std::vector<std::int64_t> order;
    sampler.global_order(order, memo);
    return std::make_shared<const std::uint64_t>(
        sm64(order.data(), static_cast<std::int64_t>(order.size()), DType::kI64));
  };
  if (memo == nullptr) return *std::static_pointer_cast<const std::uint64_t>(compute());
  const DistributedSamplerOptions& options = sampler.options();
  const std::string key =
      "order-digest:" + std::to_string(options.size) + ":" + std::to_string(options.replicas) +
      ":" + std::to_string(options.seed) + ":" + std::to_string(sampler.epoch()) +
      (options.shuffle ? ":shuffle" : ":plain") + (options.drop_last ? ":drop" : ":pad");
  return *std::static_pointer_cast<const std::uint64_t>(memo->get(key, compute));
}

}  // namespace

DistributedSampler::DistributedSampler(const RankContext& context,
                                       const RankSamplerOptions& options)
    : DistributedSampler(made_for(context, options)) {
  memo_ = &context.host().memo();  // NOLINT(cppcoreguidelines-prefer-member-initializer): delegates
  if (Recorder* const recorder = context.runtime().recorder()) {
    record_ = std::make_shared<PassRecord>(*recorder, options.split);
  }
}

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

void DistributedSampler::begin_pass() const {
  if (!record_) return;
  const std::uint64_t key =
      static_cast<std::uint64_t>(options_.seed) + static_cast<std::uint64_t>(epoch_);
  record_->begin({.sampler = record_->recorder().literal("distributed"),
                  .generator_key = key,
                  .order_digest = order_digest(*this, memo_),
                  .dataset_size = options_.size,
                  .n_replicas = options_.replicas,
                  .per_rank = length_,
                  .shuffle = options_.shuffle,
                  .drop_last = options_.drop_last,
                  .pads = !options_.drop_last},
                 epoch_,
                 std::exchange(*epoch_was_set_, false));
}

EpochOrder DistributedSampler::order(Memo* memo) const {
  if (memo == nullptr) memo = memo_;
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
  begin_pass();
  if (record_) record_->read(out);
}

void DistributedSampler::global_order(std::vector<std::int64_t>& out, Memo* memo) const {
  const EpochOrder epoch_order = order(memo);
  out.resize(static_cast<std::size_t>(total()));
  std::int64_t place = 0;
  for (std::int64_t& index : out) index = epoch_order.at(place++);
}

}  // namespace lockstep::data
