#include "lockstep/data/sampler.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/random/discrete.h"
#include "lockstep/random/multinomial.h"
#include "lockstep/random/permutation.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kIndependentDraws = 32;

Error bad_count(std::int64_t count) {
  return {.message = "num_samples should be a positive integer value, but got num_samples=" +
                     std::to_string(count),
          .where = ""};
}

Generator& chosen(const SamplerGenerators& generators) {
  LOCKSTEP_CHECK(generators.global != nullptr,
                 "SamplerGenerators::global is null: a sampler needs the process's generator");
  return generators.given != nullptr ? *generators.given : *generators.global;
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t size) : size_(size) {
  LOCKSTEP_CHECK(size >= 0, fmt::format("an order of {} samples: a size is never negative", size));
}

std::optional<std::int64_t> SequentialSampler::next() {
  if (place_ == size_) return std::nullopt;
  return place_++;
}

Result<RandomSampler> RandomSampler::make(const RandomSamplerOptions& options,
                                          const SamplerGenerators& generators) {
  if (options.count <= 0) return bad_count(options.count);
  if (options.size <= 0) {
    return Error{
        .message = "cannot sample from a data set of " + std::to_string(options.size) + " samples",
        .where = ""};
  }
  chosen(generators);
  return RandomSampler(options, generators);
}

void RandomSampler::begin() {
  block_.clear();
  place_ = 0;
  n_left_ = options_.count;
  begun_ = false;
  ended_ = false;
}

// The last block is drawn even where none of it is used, as PyTorch draws it.
void RandomSampler::draw_block() {
  if (!begun_ && generators_.given == nullptr) {
    own_.manual_seed(generators_.global->random64() & 0x7fffffffffffffffULL);
  }
  begun_ = true;
  Generator& generator = generators_.given != nullptr ? *generators_.given : own_;
  const std::int64_t whole = options_.replacement ? kIndependentDraws : options_.size;
  const std::int64_t used = std::min(whole, n_left_);
  ended_ = used < whole;
  block_.resize(static_cast<std::size_t>(options_.replacement ? used : whole));
  if (options_.replacement) {
    randint(generator, block_, {.from = 0, .to = options_.size});
  } else {
    randperm(generator, block_);
    block_.resize(static_cast<std::size_t>(used));
  }
  n_left_ -= used;
  place_ = 0;
}

std::optional<std::int64_t> RandomSampler::next() {
  if (place_ == block_.size() && !ended_) draw_block();
  if (place_ == block_.size()) return std::nullopt;
  return block_[place_++];
}

void SubsetRandomSampler::begin() {
  place_ = 0;
  begun_ = false;
}

std::optional<std::int64_t> SubsetRandomSampler::next() {
  if (!begun_) {
    order_.resize(indices_.size());
    randperm(chosen(generators_), order_);
    begun_ = true;
  }
  if (place_ == order_.size()) return std::nullopt;
  return indices_[static_cast<std::size_t>(order_[place_++])];
}

Result<WeightedRandomSampler> WeightedRandomSampler::make(WeightedSamplerOptions options,
                                                          const SamplerGenerators& generators) {
  if (options.count <= 0) return bad_count(options.count);
  chosen(generators);
  Generator trial;
  const auto drawn = multinomial(
      trial, options.weights, {.count = options.count, .replacement = options.replacement});
  if (!drawn.ok()) return drawn.error();
  return WeightedRandomSampler(std::move(options), generators);
}

void WeightedRandomSampler::begin() {
  place_ = 0;
  begun_ = false;
}

std::optional<std::int64_t> WeightedRandomSampler::next() {
  if (!begun_) {
    order_ = multinomial(chosen(generators_),
                         options_.weights,
                         {.count = options_.count, .replacement = options_.replacement})
                 .value();
    begun_ = true;
  }
  if (place_ == order_.size()) return std::nullopt;
  return order_[place_++];
}

void RankSampler::begin() {
  sampler_.begin_pass();
  order_.emplace(sampler_.order(memo_));
  place_ = 0;
}

std::optional<std::int64_t> RankSampler::next() {
  LOCKSTEP_CHECK(order_.has_value(), "next() before begin(): begin() starts a pass");
  if (place_ == sampler_.length()) return std::nullopt;
  const DistributedSamplerOptions& options = sampler_.options();
  return order_->at(options.rank + options.replicas * place_++);
}

}  // namespace lockstep::data
