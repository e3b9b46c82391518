// Samplers, loaders and data sets of sizes and places that are not there.
#include <array>
#include <iostream>
#include <limits>
#include <lockstep/data.h>
#include <stdexcept>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

/// What a program does with a Result that it does not expect to be an error.
template <typename T>
int value_of(const Result<T>& result) {
  (void)result.value();
  return 0;
}

int samples_for_a_rank_that_is_not_there() {
  return value_of(data::DistributedSampler::make({.size = 10, .replicas = 2, .rank = 2}));
}

int samples_for_a_negative_rank() {
  return value_of(data::DistributedSampler::make({.size = 10, .replicas = 2, .rank = -1}));
}

int samples_for_no_ranks() {
  return value_of(data::DistributedSampler::make({.size = 10, .replicas = 0}));
}

int samples_a_negative_size() {
  return value_of(data::DistributedSampler::make({.size = -10, .replicas = 2}));
}

int samples_more_than_can_be_counted() {
  return value_of(data::DistributedSampler::make(
      {.size = std::numeric_limits<std::int64_t>::max(), .replicas = 3}));
}

int samples_in_a_rank_for_another_world() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) {
    data::DistributedSampler sampler(rank, {.size = 10, .replicas = 2, .rank = 5});
  }));
}

int samples_nothing() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) {
    data::DistributedSampler sampler(rank, {.size = 0});
    std::vector<std::int64_t> mine;
    sampler.indices(mine);
    std::cerr << mine.at(0) << '\n';
  }));
}

int draws_batches_of_nothing() { return value_of(data::BatchSampler::make(0)); }

int takes_a_batch_that_is_not_there() {
  const auto sampler = data::BatchSampler::make(4);
  const std::array<std::int64_t, 6> samples = {0, 1, 2, 3, 4, 5};
  return static_cast<int>(sampler.value().batch(samples, 2).size());
}

int draws_nothing_at_random() {
  Generator generator(0);
  return value_of(data::random_order(generator, {.size = 0, .count = 0}));
}

int orders_a_negative_size() { return static_cast<int>(data::sequential_order(-5).size()); }

int holds_out_more_than_there_is() { return value_of(data::holdout_split(10, 11, 0)); }

int splits_into_other_lengths() {
  Generator generator(0);
  const std::array<std::int64_t, 2> lengths = {3, 4};
  return value_of(data::random_split(generator, 10, lengths));
}

int weighs_samples_negatively() {
  Generator generator(0);
  return value_of(data::WeightedRandomSampler::make({.weights = {1.0, -1.0}, .count = 2},
                                                    {.global = &generator}));
}

int draws_more_than_there_is_weight() {
  Generator generator(0);
  return value_of(data::WeightedRandomSampler::make(
      {.weights = {1.0, 0.0}, .count = 2, .replacement = false}, {.global = &generator}));
}

int gives_a_sampler_no_generator() {
  auto sampler = data::RandomSampler::make({.size = 4, .count = 4}, {});
  sampler.value().begin();
  (void)sampler.value().next();
  return 0;
}

class Reader final : public data::SampleReader {
 public:
  void read(std::int64_t index, data::Worker& worker, data::LoadedBatch& batch) override {
    batch.values.push_back(static_cast<double>(index) + worker.generator->random());
  }
};

int loads_without_a_generator() {
  data::SequentialSampler sampler(4);
  Reader reader;
  auto loader = data::DataLoader::make({.batch_size = 2}, sampler, reader);
  loader.value().begin();
  return 0;
}

int loads_with_negative_workers() {
  Generator generator(0);
  data::SequentialSampler sampler(4);
  Reader reader;
  return value_of(
      data::DataLoader::make({.num_workers = -1, .global = &generator}, sampler, reader));
}

int loads_empty_batches() {
  Generator generator(0);
  data::SequentialSampler sampler(4);
  Reader reader;
  return value_of(data::DataLoader::make({.batch_size = 0, .global = &generator}, sampler, reader));
}

int makes_a_data_set_of_other_sizes() {
  return value_of(
      data::Dataset::make({.size = 3, .feature_columns = 2, .features = {1.0, 2.0, 3.0}}));
}

int makes_a_data_set_whose_size_overflows() {
  return value_of(data::Dataset::make({.size = std::int64_t{1} << 62, .feature_columns = 8}));
}

int reads_a_sample_that_is_not_there() {
  const auto set = data::Dataset::make({.size = 1, .feature_columns = 2, .features = {1.0, 2.0}});
  return static_cast<int>(set.value().features(1)[0]);
}

int gathers_into_too_little() {
  const auto set = data::Dataset::make({.size = 1, .feature_columns = 2, .features = {1.0, 2.0}});
  std::array<float, 1> out{};
  const std::array<std::int64_t, 1> samples = {0};
  set.value().gather_features(samples, out);
  return 0;
}

int asks_for_labels_that_are_not_there() {
  const auto set = data::Dataset::make({.size = 1, .feature_columns = 2, .features = {1.0, 2.0}});
  return static_cast<int>(set.value().label(0));
}

int reads_a_csv_without_its_label() {
  data::CsvOptions options;
  options.label_column = "c";
  return value_of(data::parse_csv("a,b\n1,2\n", "t.csv", options));
}

int reads_text_as_an_array() { return value_of(data::parse_npy("not an array", "t.npy")); }

int sets_a_broken_generator() {
  Generator generator(0);
  const std::array<std::uint8_t, 3> bytes = {1, 2, 3};
  if (generator.set_state(bytes)) return 0;
  throw std::runtime_error("set_state: false for 3 bytes");
}

constexpr Misuse kDataMisuses[] = {
    {"SamplesForARankThatIsNotThere",
     "Invalid rank 2, rank should be in the interval .0, 1.",
     samples_for_a_rank_that_is_not_there},
    {"SamplesForANegativeRank",
     "Invalid rank -1, rank should be in the interval .0, 1.",
     samples_for_a_negative_rank},
    {"SamplesForNoRanks", "rank should be in the interval .0, -1.", samples_for_no_ranks},
    {"SamplesANegativeSize", "-10", samples_a_negative_size},
    {"SamplesMoreThanCanBeCounted",
     "the padded sample count does not fit 64 bits",
     samples_more_than_can_be_counted},
    {"SamplesInARankForAnotherWorld",
     "Invalid rank 5, rank should be in the interval .0, 1.",
     samples_in_a_rank_for_another_world},
    {"SamplesNothing", "which is 0", samples_nothing},
    {"DrawsBatchesOfNothing", "batch_size=0", draws_batches_of_nothing},
    {"TakesABatchThatIsNotThere",
     "no batch 2: 6 samples make 2 batches of 4",
     takes_a_batch_that_is_not_there},
    {"DrawsNothingAtRandom", "num_samples=0", draws_nothing_at_random},
    {"OrdersANegativeSize", "an order of -5 samples", orders_a_negative_size},
    {"HoldsOutMoreThanThereIs", "11", holds_out_more_than_there_is},
    {"SplitsIntoOtherLengths", "[Ss]um of input lengths", splits_into_other_lengths},
    {"WeighsSamplesNegatively", "element < 0", weighs_samples_negatively},
    {"DrawsMoreThanThereIsWeight", "sample", draws_more_than_there_is_weight},
    {"GivesASamplerNoGenerator", "SamplerGenerators::global is null", gives_a_sampler_no_generator},
    {"LoadsWithoutAGenerator", "DataLoaderOptions::global is null", loads_without_a_generator},
    {"LoadsWithNegativeWorkers", "num_workers", loads_with_negative_workers},
    {"LoadsEmptyBatches", "batch_size", loads_empty_batches},
    {"MakesADataSetOfOtherSizes", "3", makes_a_data_set_of_other_sizes},
    {"MakesADataSetWhoseSizeOverflows",
     "4611686018427387904",
     makes_a_data_set_whose_size_overflows},
    {"ReadsASampleThatIsNotThere",
     "no sample 1: the data set has 1",
     reads_a_sample_that_is_not_there},
    {"GathersIntoTooLittle",
     "a buffer of 1 values for 1 samples of 2: it needs 2",
     gathers_into_too_little},
    {"AsksForLabelsThatAreNotThere",
     "this data set has no class labels",
     asks_for_labels_that_are_not_there},
    {"ReadsACsvWithoutItsLabel", "t.csv.*'c'", reads_a_csv_without_its_label},
    {"ReadsTextAsAnArray", "t.npy", reads_text_as_an_array},
    {"SetsABrokenGenerator", "set_state: false for 3 bytes", sets_a_broken_generator},
};

}  // namespace

std::span<const Misuse> with_data() { return kDataMisuses; }

}  // namespace lockstep::misuse
