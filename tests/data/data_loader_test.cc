// The loader by hand-made examples: who reads what, and which numbers are drawn when.
#include "lockstep/data/data_loader.h"

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

// Each sample's value is the next raw draw of the process that reads it.
class DrawingRows final : public SampleReader {
 public:
  void read(std::int64_t /*index*/, Worker& worker, LoadedBatch& batch) override {
    batch.values.push_back(worker.generator->random());
  }
};

// Worker w yields lengths[w] samples, numbered 10 w, 10 w + 1, ...
class Lists final : public StreamReader {
 public:
  explicit Lists(Ids lengths) : lengths_(std::move(lengths)) {}

  std::unique_ptr<StreamPass> iterate(Worker& worker) override {
    const auto id = static_cast<std::size_t>(std::max<std::int64_t>(worker.id, 0));
    return std::make_unique<Pass>(worker.id * 10, lengths_.at(id));
  }

 private:
  class Pass final : public StreamPass {
   public:
    Pass(std::int64_t first, std::int64_t length) : at_(first), end_(first + length) {}

    bool next(Worker& /*worker*/, LoadedBatch& batch) override {
      if (at_ == end_) return false;
      batch.ids.push_back(at_++);
      return true;
    }

   private:
    std::int64_t at_;
    std::int64_t end_;
  };

  Ids lengths_;
};

std::vector<LoadedBatch> one_pass(DataLoader& loader) {
  std::vector<LoadedBatch> batches;
  LoadedBatch batch;
  for (loader.begin(); loader.next(batch);) batches.push_back(batch);
  return batches;
}

std::vector<Ids> ids_of(const std::vector<LoadedBatch>& batches) {
  std::vector<Ids> ids;
  for (const LoadedBatch& batch : batches) ids.push_back(batch.ids);
  return ids;
}

/// What is wrong with a map-style pass over `order`, judged from its batches: the order is the
/// sampler's, workers take turns, and worker w's values are the stream of base seed + w.
std::string broken_promise(const std::vector<LoadedBatch>& batches,
                           const Ids& order,
                           std::int64_t n_workers,
                           std::uint64_t base_seed) {
  Ids joined;
  std::vector<Generator> streams;
  for (std::int64_t w = 0; w < n_workers; ++w) {
    streams.emplace_back(base_seed + static_cast<std::uint64_t>(w));
  }
  for (std::size_t k = 0; k < batches.size(); ++k) {
    const LoadedBatch& batch = batches[k];
    if (batch.worker != static_cast<std::int64_t>(k) % n_workers) return "turns";
    joined.insert(joined.end(), batch.ids.begin(), batch.ids.end());
    for (const double value : batch.values) {
      if (value != streams[static_cast<std::size_t>(batch.worker)].random()) return "streams";
    }
  }
  return joined == order ? "" : "order";
}

TEST(DataLoaderTest, WorkersTakeTurnsAndBatchesKeepTheSamplersOrder) {
  Generator global(5);
  SequentialSampler sampler(7);
  DrawingRows rows;
  DataLoader loader =
      DataLoader::make({.batch_size = 2, .num_workers = 3, .global = &global}, sampler, rows)
          .value();

  const std::vector<LoadedBatch> batches = one_pass(loader);

  EXPECT_EQ(ids_of(batches), (std::vector<Ids>{{0, 1}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(broken_promise(batches, {0, 1, 2, 3, 4, 5, 6}, 3, loader.base_seed()), "");
  EXPECT_EQ(loader.length(), 4);
}

TEST(DataLoaderTest, EveryPromiseBrokenIsNoticed) {
  Generator global(5);
  SequentialSampler sampler(12);
  DrawingRows rows;
  DataLoader loader =
      DataLoader::make({.batch_size = 2, .num_workers = 3, .global = &global}, sampler, rows)
          .value();
  const std::vector<LoadedBatch> batches = one_pass(loader);
  const Ids order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::uint64_t base = loader.base_seed();
  ASSERT_EQ(broken_promise(batches, order, 3, base), "");

  std::vector<LoadedBatch> blocks = batches;  // All of worker 0 first, as if it answered fastest.
  std::stable_sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
    return a.worker < b.worker;
  });
  std::vector<LoadedBatch> clones = batches;  // Every worker draws worker 0's numbers.
  for (std::size_t k = 0; k < clones.size(); ++k) clones[k].values = clones[k / 3 * 3].values;
  std::vector<LoadedBatch> swapped = batches;
  std::swap(swapped[0].ids, swapped[1].ids);

  EXPECT_EQ(broken_promise(blocks, order, 3, base), "turns");
  EXPECT_EQ(broken_promise(clones, order, 3, base), "streams");
  EXPECT_EQ(broken_promise(batches, order, 3, base + 1), "streams");
  EXPECT_EQ(broken_promise(swapped, order, 3, base), "order");
}

// 4095051218741643470 and 6838803925648402109 are torch's int64 random_() after manual_seed(5).
TEST(DataLoaderTest, EachPassDrawsABaseSeedWithWorkersAndWithout) {
  for (const std::int64_t n_workers : {0, 2}) {
    Generator global(5);
    SequentialSampler sampler(4);

    // Raw draws of the main process would come from the same generator: read nothing there.
    class NoDraws final : public SampleReader {
      void read(std::int64_t, Worker&, LoadedBatch&) override {}
    } rows;

    DataLoader loader =
        DataLoader::make({.num_workers = n_workers, .global = &global}, sampler, rows).value();

    loader.begin();
    EXPECT_EQ(loader.base_seed(), 4095051218741643470ULL) << n_workers;
    loader.begin();
    EXPECT_EQ(loader.base_seed(), 6838803925648402109ULL) << n_workers;
  }
}

TEST(DataLoaderTest, PersistentWorkersKeepTheirSeedAndTheirStreamContinues) {
  Generator global(5);
  SequentialSampler sampler(4);
  DrawingRows rows;
  DataLoader loader =
      DataLoader::make(
          {.batch_size = 2, .num_workers = 1, .persistent_workers = true, .global = &global},
          sampler,
          rows)
          .value();

  std::vector<double> values;
  for (int pass = 0; pass < 2; ++pass) {
    for (const LoadedBatch& batch : one_pass(loader)) {
      values.insert(values.end(), batch.values.begin(), batch.values.end());
    }
  }

  Generator stream(loader.base_seed());
  for (const double value : values) EXPECT_EQ(value, stream.random());
  EXPECT_EQ(values.size(), 8U);
  EXPECT_EQ(loader.base_seed(), 4095051218741643470ULL);
}

TEST(DataLoaderTest, AnExhaustedWorkerIsPassedOver) {
  Generator global(1);
  Lists lists({1, 5, 3});
  DataLoader loader =
      DataLoader::make({.batch_size = 2, .num_workers = 3, .global = &global}, lists).value();

  // Worker 0 ends after its short batch, worker 2 after its second; worker 1 reads on alone.
  EXPECT_EQ(ids_of(one_pass(loader)),
            (std::vector<Ids>{{0}, {10, 11}, {20, 21}, {12, 13}, {22}, {14}}));
}

TEST(DataLoaderTest, DroppingTheLastBatchDropsTheTailOfEachWorker) {
  Generator global(1);
  Lists lists({1, 5, 3});
  DataLoader loader =
      DataLoader::make({.batch_size = 2, .drop_last = true, .num_workers = 3, .global = &global},
                       lists)
          .value();

  EXPECT_EQ(ids_of(one_pass(loader)), (std::vector<Ids>{{10, 11}, {20, 21}, {12, 13}}));
}

TEST(DataLoaderTest, WhatAReaderThrowsComesOutAtItsTurn) {
  class Faulty final : public SampleReader {
    void read(std::int64_t index, Worker&, LoadedBatch&) override {
      if (index == 2) throw std::runtime_error("row 2 is damaged");
    }
  } rows;

  Generator global(1);
  SequentialSampler sampler(4);
  DataLoader loader =
      DataLoader::make({.num_workers = 2, .global = &global}, sampler, rows).value();
  LoadedBatch batch;

  loader.begin();
  EXPECT_TRUE(loader.next(batch));
  EXPECT_TRUE(loader.next(batch));
  EXPECT_THROW(loader.next(batch), std::runtime_error);
  EXPECT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.ids, Ids{3});
  EXPECT_FALSE(loader.next(batch));
}

TEST(DataLoaderTest, OptionsOutOfRangeAreRefusedInPyTorchsWords) {
  Generator global(1);
  Lists lists({1});
  const auto message = [&](DataLoaderOptions options) {
    options.global = &global;
    return DataLoader::make(options, lists).error().message;
  };

  EXPECT_EQ(message({.batch_size = 0}),
            "batch_size should be a positive integer value, but got batch_size=0");
  EXPECT_EQ(message({.num_workers = -1}),
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing.");
  EXPECT_EQ(message({.persistent_workers = true}),
            "persistent_workers option needs num_workers > 0");
  EXPECT_EQ(message({.prefetch_factor = 3}),
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing.");
  EXPECT_THROW(DataLoader::make({}, lists).ok(), ContractViolation);
}

// Computed by PyTorch 1.13's _generate_state.
TEST(DataLoaderTest, NumpysSeedOfAWorkerIsFourWords) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(numpy_worker_words(4095051218741643470ULL, 0),
            (Words{2179775211U, 1084446337U, 3932410000U, 3256643703U}));
  EXPECT_EQ(numpy_worker_words(4095051218741643470ULL, 1),
            (Words{2090287553U, 2914525236U, 1096307795U, 2170037116U}));
}

}  // namespace
}  // namespace lockstep::data
