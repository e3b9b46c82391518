// The order in which a loader reads a data set, one index at a time.
//
// One at a time matters: PyTorch's samplers draw random numbers only when an index is asked for,
// and the same generator may serve others in between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/random/generator.h"

namespace lockstep::data {

/// Where indices come from. A pass ends with an empty answer and stays ended until begin().
///
/// Deterministic: begin() draws nothing; next() draws what the class says.
/// Source: PyTorch 1.13, torch/utils/data/sampler.py.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Starts a pass over; an unfinished one is dropped.
  virtual void begin() = 0;
  /// The next index, or nothing at the end of the pass.
  virtual std::optional<std::int64_t> next() = 0;
  /// Indices of one pass.
  virtual std::int64_t length() const = 0;

  /// Where those who read the samples record that; null: nowhere. A sampler that has one records
  /// the beginnings of its passes itself.
  virtual PassRecord* record() const { return nullptr; }
};

/// 0 .. size-1.
class SequentialSampler final : public Sampler {
 public:
  /// Requires: size >= 0.
  explicit SequentialSampler(std::int64_t size);

  void begin() override { place_ = 0; }

  std::optional<std::int64_t> next() override;

  std::int64_t length() const override { return size_; }

 private:
  std::int64_t size_;
  std::int64_t place_ = 0;
};

/// Where a sampler draws from.
struct SamplerGenerators {
  Generator* global = nullptr;  ///< The process's own. Never null.
  Generator* given = nullptr;   ///< `generator=` of the sampler; null: not given.
};

/// Permutation after permutation, or independent draws in blocks of 32.
///
/// Without a given generator each pass seeds its own with two draws of the global one, when
/// its first index is asked for. A pass without replacement ends with one more permutation than it
/// has used up, so a generator that is shared moves on by that much.
class RandomSampler final : public Sampler {
 public:
  /// Errors: a count or size below 1, in PyTorch's words.
  static Result<RandomSampler> make(const RandomSamplerOptions& options,
                                    const SamplerGenerators& generators);

  void begin() override;
  std::optional<std::int64_t> next() override;

  std::int64_t length() const override { return options_.count; }

 private:
  RandomSampler(const RandomSamplerOptions& options, const SamplerGenerators& generators)
      : options_(options), generators_(generators) {}

  void draw_block();

  RandomSamplerOptions options_;
  SamplerGenerators generators_;
  Generator own_{};
  std::vector<std::int64_t> block_;
  std::size_t place_ = 0;
  std::int64_t n_left_ = 0;  ///< Indices of this pass that no block holds yet.
  bool begun_ = false;
  bool ended_ = true;
};

/// The given indices in the order of a permutation drawn, at the first index, from the given
/// generator, else from the global one itself.
class SubsetRandomSampler final : public Sampler {
 public:
  SubsetRandomSampler(std::vector<std::int64_t> indices, const SamplerGenerators& generators)
      : indices_(std::move(indices)), generators_(generators) {}

  void begin() override;
  std::optional<std::int64_t> next() override;

  std::int64_t length() const override { return static_cast<std::int64_t>(indices_.size()); }

 private:
  std::vector<std::int64_t> indices_;
  SamplerGenerators generators_;
  std::vector<std::int64_t> order_;
  std::size_t place_ = 0;
  bool begun_ = false;
};

/// PyTorch's arguments of WeightedRandomSampler.
struct WeightedSamplerOptions {
  std::vector<double> weights = {};  ///< One per sample, any finite sum.
  std::int64_t count = 0;            ///< Samples of a pass.
  bool replacement = true;
};

/// Draws each index in proportion to its weight (random/multinomial.h), all of a pass at its first
/// index, from the given generator, else from the global one itself. Does not know about ranks.
class WeightedRandomSampler final : public Sampler {
 public:
  /// Errors: a count below 1 in PyTorch's words, and what multinomial() refuses, which PyTorch does
  ///     at the first index.
  static Result<WeightedRandomSampler> make(WeightedSamplerOptions options,
                                            const SamplerGenerators& generators);

  void begin() override;
  std::optional<std::int64_t> next() override;

  std::int64_t length() const override { return options_.count; }

 private:
  WeightedRandomSampler(WeightedSamplerOptions options, const SamplerGenerators& generators)
      : options_(std::move(options)), generators_(generators) {}

  WeightedSamplerOptions options_;
  SamplerGenerators generators_;
  std::vector<std::int64_t> order_;
  std::size_t place_ = 0;
  bool begun_ = false;
};

/// One rank's indices of a DistributedSampler, read off the order that the ranks share: a pass
/// stores nothing itself. Draws from no generator of the process.
class RankSampler final : public Sampler {
 public:
  /// `sampler` is read at begin(), so set_epoch() before a pass counts. Both must outlive this.
  explicit RankSampler(const DistributedSampler& sampler, Memo* memo = nullptr)
      : sampler_(sampler), memo_(memo) {}

  void begin() override;
  std::optional<std::int64_t> next() override;

  std::int64_t length() const override { return sampler_.length(); }

  PassRecord* record() const override { return sampler_.record(); }

 private:
  const DistributedSampler& sampler_;
  Memo* memo_;
  std::optional<EpochOrder> order_;
  std::int64_t place_ = 0;
};

}  // namespace lockstep::data
