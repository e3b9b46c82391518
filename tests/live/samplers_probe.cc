// Answers the cases of samplers.py: one line per case on the standard input, one line of indices
// each.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/data/sampler.h"
#include "lockstep/data/split.h"
#include "lockstep/random/discrete.h"

#include "tests/golden/golden_file.h"

namespace {

using namespace lockstep;
using Ids = std::vector<std::int64_t>;

void append_pass(data::Sampler& sampler, Ids& out) {
  sampler.begin();
  while (const auto index = sampler.next()) out.push_back(*index);
}

Ids distributed(const golden::Case& one) {
  data::DistributedSampler sampler = data::DistributedSampler::make({.size = one.integer(0),
                                                                     .replicas = one.integer(1),
                                                                     .rank = one.integer(2),
                                                                     .shuffle = one.flag(3),
                                                                     .seed = one.integer(4),
                                                                     .drop_last = one.flag(5)})
                                         .value();
  data::RankSampler indices(sampler);
  Ids out;
  for (std::int64_t epoch = one.integer(6); epoch < one.integer(6) + 3; ++epoch) {
    sampler.set_epoch(epoch);
    append_pass(indices, out);
  }
  return out;
}

std::unique_ptr<data::Sampler> sampler_of(const golden::Case& one,
                                          const data::SamplerGenerators& generators) {
  const std::int64_t size = one.integer(0);
  const std::int64_t count = one.integer(3);
  if (one.kind == "subset") {
    Ids ids(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(3 * i);
    return std::make_unique<data::SubsetRandomSampler>(ids, generators);
  }
  if (one.kind == "weighted") {
    std::vector<double> weights;
    for (std::size_t i = 5; i < one.arguments.size(); ++i) {
      weights.push_back(std::strtod(one.arguments[i].c_str(), nullptr));
    }
    return std::make_unique<data::WeightedRandomSampler>(
        data::WeightedRandomSampler::make(
            {.weights = weights, .count = count, .replacement = one.flag(4)}, generators)
            .value());
  }
  return std::make_unique<data::RandomSampler>(
      data::RandomSampler::make(
          {.size = size, .count = count, .replacement = one.kind == "replacement"}, generators)
          .value());
}

Ids drawn(const golden::Case& one) {
  const auto seed = static_cast<std::uint64_t>(one.integer(1));
  Generator global(seed);
  Generator own(seed + 1);
  const auto sampler = sampler_of(one, {.global = &global, .given = one.flag(2) ? &own : nullptr});
  Ids out;
  for (int pass = 0; pass < 3; ++pass) append_pass(*sampler, out);
  Ids last(1);
  randint(global, last, {0, std::int64_t{1} << 31U});
  out.push_back(last[0]);
  return out;
}

Ids split(const golden::Case& one) {
  Generator generator(static_cast<std::uint64_t>(one.integer(1)));
  Ids lengths;
  if (one.kind == "lengths") {
    for (std::size_t i = 2; i < one.arguments.size(); ++i) lengths.push_back(one.integer(i));
  } else {
    std::vector<double> fractions;
    for (std::size_t i = 2; i < one.arguments.size(); ++i) {
      fractions.push_back(std::strtod(one.arguments[i].c_str(), nullptr));
    }
    lengths = data::split_lengths(one.integer(0), fractions).value();
  }
  const auto parts = data::random_split(generator, one.integer(0), lengths);
  Ids out;
  for (const Ids& part : parts.value()) {
    out.push_back(-1);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

Ids answer(const golden::Case& one) {
  if (one.kind == "distributed") return distributed(one);
  if (one.kind == "lengths" || one.kind == "fractions") return split(one);
  return drawn(one);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    for (const std::int64_t index : answer(golden::case_of(line))) {
      words.push_back(std::to_string(index));
    }
    std::cout << join(words, " ") << '\n';
  }
  return 0;
}
