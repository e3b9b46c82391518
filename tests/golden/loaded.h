// Answers the lines of make_loaders.py with our own loader.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/data_loader.h"
#include "lockstep/random/discrete.h"
#include "lockstep/random/normal.h"

#include "tests/golden/golden_file.h"

namespace lockstep::golden {

/// The key=value words of a line.
class LoaderCase {
 public:
  explicit LoaderCase(const Case& one) {
    for (const std::string& word : one.arguments) {
      const std::size_t cut = word.find('=');
      words_[word.substr(0, cut)] = word.substr(cut + 1);
    }
  }

  std::int64_t integer(const std::string& key) const { return parse_int(words_.at(key)).value(); }

  bool flag(const std::string& key) const { return integer(key) != 0; }

  const std::string& text(const std::string& key) const { return words_.at(key); }

 private:
  std::map<std::string, std::string> words_;
};

inline std::int64_t below(Generator& generator, std::int64_t bound) {
  std::vector<std::int64_t> out(1);
  randint(generator, out, {0, bound});
  return out[0];
}

/// What reading a sample draws, from whatever generator `worker` has.
inline void augment(const LoaderCase& one, data::Worker& worker, data::LoadedBatch& batch) {
  batch.values.push_back(static_cast<double>(below(*worker.generator, 1000000)));
  if (!one.flag("normal")) return;
  std::vector<float> value(1);
  normal(*worker.generator, value);
  batch.values.push_back(value[0]);
}

inline void init_worker(const LoaderCase& one, data::Worker& worker) {
  if (one.text("init") == "reseed") {
    worker.generator->manual_seed(42 + static_cast<std::uint64_t>(worker.id));
  }
  if (one.text("init") == "draw") below(*worker.generator, 10);
}

class Rows : public data::SampleReader {
 public:
  explicit Rows(const LoaderCase& one) : one_(one) {}

  void init(data::Worker& worker) override { init_worker(one_, worker); }

  void read(std::int64_t /*index*/, data::Worker& worker, data::LoadedBatch& batch) override {
    augment(one_, worker, batch);
  }

 private:
  const LoaderCase& one_;
};

class Stream : public data::StreamReader {
 public:
  explicit Stream(const LoaderCase& one) : one_(one) {}

  void init(data::Worker& worker) override { init_worker(one_, worker); }

  std::unique_ptr<data::StreamPass> iterate(data::Worker& worker) override {
    const bool main = worker.id < 0;
    const std::int64_t id = main ? 0 : worker.id;
    const std::int64_t count = main ? 1 : worker.count;
    const std::int64_t size = one_.integer("size");
    Range range{.at = 0, .end = size, .stride = 1};
    if (one_.text("source") == "uneven") {
      range = {.at = 100 * id, .end = 100 * id + (id * 7 + size) % 9, .stride = 1};
    } else if (one_.text("source") == "sharded") {
      range = {.at = one_.integer("rank") * count + id,
               .end = size,
               .stride = one_.integer("ranks") * count};
    }
    return std::make_unique<Pass>(one_, range);
  }

 private:
  struct Range {
    std::int64_t at = 0;
    std::int64_t end = 0;
    std::int64_t stride = 1;
  };

  class Pass final : public data::StreamPass {
   public:
    Pass(const LoaderCase& one, Range range) : one_(one), range_(range) {}

    bool next(data::Worker& worker, data::LoadedBatch& batch) override {
      if (range_.at >= range_.end) return false;
      batch.ids.push_back(range_.at);
      range_.at += range_.stride;
      augment(one_, worker, batch);
      return true;
    }

   private:
    const LoaderCase& one_;
    Range range_;
  };

  const LoaderCase& one_;
};

/// A process with its generators, its sampler and its loader.
class LoaderRun {
 public:
  explicit LoaderRun(const Case& text) : one_(text), rows_(one_), stream_(one_) {
    global_.manual_seed(static_cast<std::uint64_t>(one_.integer("seed")));
    own_.manual_seed(static_cast<std::uint64_t>(one_.integer("seed") + 1));
    const std::string& given = one_.text("given");
    if (given == "own") given_ = &own_;
    if (given == "global") given_ = &global_;
  }

  const LoaderCase& words() const { return one_; }

  /// All passes as the file writes them. Another reader of rows may stand in for the usual one.
  std::string passes(data::SampleReader* rows = nullptr) {
    make_sampler();
    data::DataLoader loader = make_loader(rows != nullptr ? *rows : rows_);
    for (std::int64_t epoch = 0; epoch < one_.integer("epochs"); ++epoch) {
      if (shared_) shared_->set_epoch(epoch);
      one_pass(loader, epoch == 0 ? one_.integer("stop") : 0);
      words_.push_back("global=" + std::to_string(below(global_, 1000000)));
      words_.push_back("own=" + std::to_string(below(own_, 1000000)));
    }
    return join(words_, " ");
  }

 private:
  void make_sampler() {
    const std::string& kind = one_.text("source");
    const std::int64_t size = one_.integer("size");
    const data::SamplerGenerators generators{.global = &global_, .given = given_};
    if (kind == "shuffle" || kind == "replacement" || kind == "rounds") {
      const data::RandomSamplerOptions options{
          .size = size,
          .count = kind == "shuffle" ? size : one_.integer("count"),
          .replacement = kind == "replacement"};
      sampler_ = std::make_unique<data::RandomSampler>(
          data::RandomSampler::make(options, generators).value());
    } else if (kind == "subset") {
      std::vector<std::int64_t> even(static_cast<std::size_t>(size));
      for (std::size_t i = 0; i < even.size(); ++i) even[i] = static_cast<std::int64_t>(2 * i);
      sampler_ = std::make_unique<data::SubsetRandomSampler>(even, generators);
    } else if (kind == "weighted") {
      std::vector<double> weights(static_cast<std::size_t>(size));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = 1.0 + static_cast<double>(i % 5);
      }
      sampler_ = std::make_unique<data::WeightedRandomSampler>(
          data::WeightedRandomSampler::make({.weights = weights, .count = one_.integer("count")},
                                            generators)
              .value());
    } else if (kind == "distributed") {
      shared_.emplace(data::DistributedSampler::make({.size = size,
                                                      .replicas = one_.integer("ranks"),
                                                      .rank = one_.integer("rank"),
                                                      .seed = 3,
                                                      .drop_last = one_.flag("drop")})
                          .value());
      sampler_ = std::make_unique<data::RankSampler>(*shared_);
    } else {
      sampler_ = std::make_unique<data::SequentialSampler>(size);
    }
  }

  data::DataLoader make_loader(data::SampleReader& rows) {
    const data::DataLoaderOptions options{.batch_size = one_.integer("batch"),
                                          .drop_last = one_.flag("drop"),
                                          .num_workers = one_.integer("workers"),
                                          .prefetch_factor = one_.integer("prefetch"),
                                          .persistent_workers = one_.flag("persistent"),
                                          .global = &global_,
                                          .generator = given_};
    const std::string& kind = one_.text("source");
    const bool is_stream = kind == "plain" || kind == "sharded" || kind == "uneven";
    return is_stream ? data::DataLoader::make(options, stream_).value()
                     : data::DataLoader::make(options, *sampler_, rows).value();
  }

  void one_pass(data::DataLoader& loader, std::int64_t stop) {
    data::LoadedBatch batch;
    std::int64_t n_batches = 0;
    for (loader.begin(); loader.next(batch);) {
      append(batch);
      if (one_.flag("between")) below(global_, 10);
      if (++n_batches == stop) break;
    }
  }

  void append(const data::LoadedBatch& batch) {
    const std::size_t n_values = batch.values.size() / batch.ids.size();
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      std::vector<std::string> drawn;
      for (std::size_t k = 0; k < n_values; ++k) {
        drawn.push_back(hex64(std::bit_cast<std::uint64_t>(batch.values[i * n_values + k])));
      }
      words_.push_back(std::to_string(batch.ids[i]) + "@" + std::to_string(batch.worker) + "=" +
                       join(drawn, ","));
    }
    words_.push_back("|");
  }

  LoaderCase one_;
  Rows rows_;
  Stream stream_;
  Generator global_{};
  Generator own_{};
  Generator* given_ = nullptr;
  std::optional<data::DistributedSampler> shared_{};
  std::unique_ptr<data::Sampler> sampler_{};
  std::vector<std::string> words_{};
};

inline std::string loaded(const Case& one) { return LoaderRun(one).passes(); }

}  // namespace lockstep::golden
