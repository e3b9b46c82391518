// The words in passes over data that laws know. Programs may use others: own samplers, own splits.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/words.h"

namespace lockstep {

/// How a rank came to the samples of a pass, as EpochEvent::sampler and DataEvent::source say.
enum class KnownSampler : std::uint8_t {
  kDistributed,  ///< All ranks share one order and read disjoint parts of it.
  kRandom,       ///< The rank alone reads the whole set, each sample once, in an order of its own.
  kSequential,   ///< The same, in the set's order.
  kStream,       ///< A data set that is iterated over.
};
template <>
inline constexpr WordTable<4> kWords<KnownSampler> = {
    "distributed", "random", "sequential", "stream"};

/// The split that is trained on; any other is evaluated.
inline constexpr std::string_view kTrainSplit = "train";

constexpr bool is_train_split(std::string_view split) { return split == kTrainSplit; }

}  // namespace lockstep
