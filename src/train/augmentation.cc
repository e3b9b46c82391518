#include "lockstep/train/augmentation.h"

#include <optional>
#include <span>

#include "lockstep/data/data_loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/random/generator.h"

namespace lockstep {

namespace {

/// The rows of an epoch that is already planned.
class ListSampler final : public data::Sampler {
 public:
  void set(std::span<const std::int64_t> ids) { ids_ = ids; }

  void begin() override { place_ = 0; }

  std::optional<std::int64_t> next() override {
    if (place_ == ids_.size()) return std::nullopt;
    return ids_[place_++];
  }

  std::int64_t length() const override { return static_cast<std::int64_t>(ids_.size()); }

 private:
  std::span<const std::int64_t> ids_;
  std::size_t place_ = 0;
};

Augmentation::Streams seeded(const AugmentSpec& spec, std::int32_t rank) {
  const std::uint64_t seed = spec.seed + (spec.seed_by_rank ? static_cast<std::uint64_t>(rank) : 0);
  return {Generator(seed), Generator(seed)};
}

}  // namespace

class Augmentation::Reader final : public data::SampleReader {
 public:
  Reader(const Job& job, const RankContext& context)
      : inherited_(job.loader.augment.stream == AugmentStream::kInherited),
        record_(context.annotate()),
        streams_(seeded(job.loader.augment, context.rank())),
        at_pass_(streams_),
        loader_(make_loader(job.loader)) {}

  const Streams& at_pass() const { return at_pass_; }

  void resume(const Streams& streams) { streams_ = at_pass_ = streams; }

  std::vector<double> signs(std::span<const std::int64_t> ids) {
    at_pass_ = streams_;
    seen_.clear();
    sampler_.set(ids);
    std::vector<double> all;
    all.reserve(ids.size());
    data::LoadedBatch batch;
    for (loader_.begin(); loader_.next(batch);) {
      all.insert(all.end(), batch.values.begin(), batch.values.end());
    }
    return all;
  }

  void init(data::Worker& worker) override {
    copies_.resize(static_cast<std::size_t>(worker.count));
    copies_[static_cast<std::size_t>(worker.id)] = streams_.library;
  }

  void read(std::int64_t /*index*/, data::Worker& worker, data::LoadedBatch& batch) override {
    Generator& generator = generator_of(worker);
    note(worker, generator);
    batch.values.push_back((generator.random() & 1U) != 0 ? -1.0 : 1.0);
  }

 private:
  Generator& generator_of(data::Worker& worker) {
    if (!inherited_) return *worker.generator;
    return worker.id < 0 ? streams_.library : copies_[static_cast<std::size_t>(worker.id)];
  }

  void note(const data::Worker& worker, const Generator& generator) {
    const auto place = static_cast<std::size_t>(worker.id + 1);
    if (seen_.size() <= place) seen_.resize(place + 1);
    if (seen_[place]) return;
    seen_[place] = true;
    record_.stream("augment", generator, StreamScope::kPrivate, worker.id);
  }

  data::DataLoader make_loader(const LoaderSpec& spec) {
    Result<data::DataLoader> loader = data::DataLoader::make({.batch_size = spec.batch,
                                                              .num_workers = spec.workers,
                                                              .persistent_workers = spec.persistent,
                                                              .global = &streams_.own},
                                                             sampler_,
                                                             *this);
    LOCKSTEP_CHECK(loader.ok(), loader.error().text());
    return std::move(loader).value();
  }

  bool inherited_;
  Annotations record_;
  std::vector<bool> seen_{};  ///< By worker + 1: has it drawn in this pass.
  Streams streams_;           ///< Base seeds come from `own`.
  Streams at_pass_;
  std::vector<Generator> copies_{};
  ListSampler sampler_;
  data::DataLoader loader_;
};

Augmentation::Augmentation(const Job& job, const RankContext& context)
    : reader_(std::make_unique<Reader>(job, context)) {}

Augmentation::~Augmentation() = default;

const Augmentation::Streams& Augmentation::at_pass() const { return reader_->at_pass(); }

void Augmentation::resume(const Streams& streams) { reader_->resume(streams); }

std::vector<double> Augmentation::signs(const std::vector<std::int64_t>& ids) {
  return reader_->signs(ids);
}

}  // namespace lockstep
