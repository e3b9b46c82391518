#include "lockstep/train/rank_epoch.h"

#include <fmt/core.h>
#include <numeric>

#include "lockstep/base/text.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/random/generator.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

std::uint64_t digest_of(const std::vector<std::int64_t>& order) {
  return sm64(order.data(), static_cast<std::int64_t>(order.size()), DType::kI64);
}

void cut_into_batches(RankEpoch& epoch, std::int64_t batch) {
  const auto n = static_cast<std::int64_t>(epoch.ids.size());
  for (std::int64_t at = 0; at < n; at += batch) {
    epoch.batch_sizes.push_back(std::min(batch, n - at));
  }
}

// The digest of the global order costs as much as drawing it; ranks share one through the memo.
std::uint64_t shared_order_digest(const data::DistributedSampler& sampler, Memo& memo) {
  const data::DistributedSamplerOptions& options = sampler.options();
  const std::string key =
      "order-digest:" + std::to_string(options.size) + ":" + std::to_string(options.replicas) +
      ":" + std::to_string(options.seed) + ":" + std::to_string(sampler.epoch()) +
      (options.shuffle ? ":shuffle" : ":plain") + (options.drop_last ? ":drop" : ":pad");
  const auto digest = memo.get(key, [&] {
    std::vector<std::int64_t> order;
    sampler.global_order(order, &memo);
    return std::make_shared<const std::uint64_t>(digest_of(order));
  });
  return *std::static_pointer_cast<const std::uint64_t>(digest);
}

RankEpoch distributed(const Job& job, const RankContext& context, std::int64_t sampler_epoch) {
  Result<data::DistributedSampler> made = data::DistributedSampler::make(
      {.size = job.train->size(),
       .replicas = context.world_size(),
       .rank = job.loader.rank < 0 ? context.rank() : job.loader.rank,
       .shuffle = job.loader.shuffle,
       .seed = static_cast<std::int64_t>(job.loader.seed),
       .drop_last = job.loader.drop_last});
  LOCKSTEP_CHECK(made.ok(), made.error().text());
  data::DistributedSampler& sampler = made.value();
  sampler.set_epoch(sampler_epoch);
  Memo& memo = context.host().memo();

  RankEpoch epoch;
  epoch.n_replicas = context.world_size();
  epoch.generator_key = job.loader.seed + static_cast<std::uint64_t>(sampler_epoch);
  epoch.pads = !job.loader.drop_last;
  sampler.indices(epoch.ids, &memo);
  epoch.order_digest = shared_order_digest(sampler, memo);
  return epoch;
}

// Does not know about ranks: each rank sees the whole data set, in its own process's order.
RankEpoch without_ranks(const Job& job, std::int64_t sampler_epoch) {
  RankEpoch epoch;
  epoch.generator_key = job.loader.seed + static_cast<std::uint64_t>(sampler_epoch);
  if (job.loader.sampler == SamplerKind::kRandom || job.loader.shuffle) {
    Generator outer(epoch.generator_key);
    Result<std::vector<std::int64_t>> order =
        data::random_order(outer, {.size = job.train->size(), .count = job.train->size()});
    LOCKSTEP_CHECK(order.ok(), order.error().text());
    epoch.ids = std::move(order).value();
  } else {
    epoch.ids = data::sequential_order(job.train->size());
  }
  epoch.order_digest = digest_of(epoch.ids);
  return epoch;
}

// Consecutive rows: rank 0's batches first, then rank 1's, and so on.
RankEpoch batches_by_rank(const Job& job, const RankContext& context) {
  const auto& by_rank = job.loader.batches_by_rank;
  const auto rank = static_cast<std::size_t>(context.rank());
  LOCKSTEP_CHECK(
      rank < by_rank.size(),
      fmt::format("batches_by_rank has {} entries, none for rank {}", by_rank.size(), rank));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    first = std::accumulate(by_rank[i].begin(), by_rank[i].end(), first);
  }
  RankEpoch epoch;
  epoch.n_replicas = context.world_size();
  epoch.batch_sizes = by_rank[rank];
  const std::int64_t n =
      std::accumulate(by_rank[rank].begin(), by_rank[rank].end(), std::int64_t{0});
  epoch.ids.resize(static_cast<std::size_t>(n));
  std::iota(epoch.ids.begin(), epoch.ids.end(), first);
  return epoch;
}

}  // namespace

RankEpoch plan_epoch(const Job& job, const RankContext& context, std::int64_t sampler_epoch) {
  RankEpoch epoch;
  if (job.loader.sampler == SamplerKind::kDistributed) {
    epoch = distributed(job, context, sampler_epoch);
  } else if (job.loader.sampler == SamplerKind::kBatchesByRank) {
    epoch = batches_by_rank(job, context);
  } else {
    epoch = without_ranks(job, sampler_epoch);
  }
  epoch.dataset_size = job.train->size();
  if (epoch.batch_sizes.empty()) cut_into_batches(epoch, job.loader.batch);
  return epoch;
}

// A data set that is iterated over: its rows in an order of the epoch, divided among its readers.
class RankLoader::Stream final : public data::StreamReader {
 public:
  Stream(const Job& job, const RankContext& context)
      : job_(job), context_(context), generator_(job.loader.seed), loader_(make_loader()) {}

  RankEpoch plan(std::int64_t sampler_epoch) {
    epoch_ = sampler_epoch;
    RankEpoch epoch;
    epoch.n_replicas = job_.loader.shard == StreamShard::kNone ? 1 : context_.world_size();
    epoch.dataset_size = job_.train->size();
    epoch.generator_key = job_.loader.seed + static_cast<std::uint64_t>(sampler_epoch);
    data::LoadedBatch batch;
    for (loader_.begin(); loader_.next(batch);) {
      epoch.ids.insert(epoch.ids.end(), batch.ids.begin(), batch.ids.end());
      epoch.batch_sizes.push_back(static_cast<std::int64_t>(batch.ids.size()));
    }
    epoch.order_digest = shared_order_digest(sampler_, context_.host().memo());
    return epoch;
  }

  void init(data::Worker& worker) override {
    copies_.resize(static_cast<std::size_t>(worker.count));
    copies_[static_cast<std::size_t>(worker.id)] = epoch_;
  }

  std::unique_ptr<data::StreamPass> iterate(data::Worker& worker) override {
    const bool main = worker.id < 0;
    sampler_.set_epoch(main ? epoch_ : copies_[static_cast<std::size_t>(worker.id)]);
    const std::int64_t count = main ? 1 : worker.count;
    std::int64_t first = 0;
    std::int64_t stride = 1;
    if (job_.loader.shard == StreamShard::kRank) {
      first = context_.rank();
      stride = context_.world_size();
    } else if (job_.loader.shard == StreamShard::kRankAndWorker) {
      first = context_.rank() * count + (main ? 0 : worker.id);
      stride = context_.world_size() * count;
    }
    return std::make_unique<Pass>(
        sampler_.order(&context_.host().memo()), job_.train->size(), first, stride);
  }

 private:
  class Pass final : public data::StreamPass {
   public:
    Pass(data::EpochOrder order, std::int64_t size, std::int64_t first, std::int64_t stride)
        : order_(std::move(order)), size_(size), place_(first), stride_(stride) {}

    bool next(data::Worker& /*worker*/, data::LoadedBatch& batch) override {
      if (place_ >= size_) return false;
      batch.ids.push_back(order_.at(place_));
      place_ += stride_;
      return true;
    }

   private:
    data::EpochOrder order_;
    std::int64_t size_;
    std::int64_t place_;
    std::int64_t stride_;
  };

  data::DataLoader make_loader() {
    Result<data::DataLoader> loader =
        data::DataLoader::make({.batch_size = job_.loader.batch,
                                .drop_last = job_.loader.drop_last,
                                .num_workers = job_.loader.workers,
                                .persistent_workers = job_.loader.persistent,
                                .global = &generator_},
                               *this);
    LOCKSTEP_CHECK(loader.ok(), loader.error().text());
    return std::move(loader).value();
  }

  const Job& job_;
  const RankContext& context_;
  Generator generator_;
  // One replica: the order that all readers divide among themselves.
  data::DistributedSampler sampler_ =
      data::DistributedSampler::make({.size = job_.train->size(),
                                      .shuffle = job_.loader.shuffle,
                                      .seed = static_cast<std::int64_t>(job_.loader.seed)})
          .value();
  std::int64_t epoch_ = 0;              ///< What set_epoch() set on this process's data set.
  std::vector<std::int64_t> copies_{};  ///< By worker: the epoch of its copy when it started.
  data::DataLoader loader_;
};

RankLoader::RankLoader(const Job& job, const RankContext& context)
    : job_(job),
      context_(context),
      stream_(job.loader.sampler == SamplerKind::kStream ? std::make_unique<Stream>(job, context)
                                                         : nullptr) {}

RankLoader::~RankLoader() = default;

RankEpoch RankLoader::plan(std::int64_t sampler_epoch) {
  return stream_ ? stream_->plan(sampler_epoch) : plan_epoch(job_, context_, sampler_epoch);
}

void RankLoader::skip_to(std::int64_t epoch) {
  if (!stream_) return;
  const LoaderSpec& loader = job_.loader;
  for (std::int64_t e = 0; e < epoch; ++e) {
    stream_->plan(loader.set_epoch ? loader.first_epoch + e : 0);
  }
}

}  // namespace lockstep
