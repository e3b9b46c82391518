// Passes that ranks divided among themselves by one order, and passes after which they no longer do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/samples/split_place.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Ranks that draw one order from generators seeded alike divide a data set without a word to each other,
/// for as long as no rank draws anything else from its own.
///
///   pass 1   rank 0: 0 4 2   rank 1: 5 1 3     nothing in common: they divide the set
///   pass 2   rank 0: 3 1 5   rank 1: 1 0 3     1 and 3 are read by both, and others by none
///
/// Programs may share samples later on purpose, such as hard ones, which no event shows; hence advice.
class LaterPasses {
 public:
  /// A rank begins a pass over a data set that nothing divides, with a replica among `n_ranks`.
  void on_pass(const Event& event, const DataEvent& data, std::int32_t n_ranks);
  void on_samples(const Event& event, const SampleEvent& samples);

  /// "A-order-comes-apart", at most once per attempt and split.
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  /// What one rank has read in one pass.
  struct Reading {
    NameId source = kNoName;
    std::uint64_t set = 0;  ///< What the data set holds.
    std::int32_t step = 0;
    std::size_t batch = 0;  ///< Samples in the largest of its batches.
    std::vector<std::int64_t> ids = {};
  };

  using ReadingByRank = std::map<std::int32_t, Reading>;

  /// How the ranks divided the set in their first pass.
  struct Division {
    NameId source = kNoName;
    std::uint64_t set = 0;
    std::size_t n_read = 0;
    std::size_t n_again = 0;  ///< Of these, for padding.
  };

  /// A pass in which they did not.
  struct Apart {
    std::int32_t nth = 0;
    std::int32_t step = 0;
    std::int64_t n_shared = 0;
    std::vector<Rank> ranks = {};
  };

  struct Passes {
    std::int32_t n_ranks = 0;
    std::map<std::int32_t, std::int32_t> nth = {};     // The pass that each rank is in, from 0.
    std::map<std::int32_t, ReadingByRank> open = {};   // By pass: not all ranks have left it.
    std::map<std::int32_t, std::int32_t> n_left = {};  // Ranks that have, by pass.
    std::optional<Division> division = {};
    std::optional<Apart> apart = {};
    bool settled = false;  ///< Nothing more is to be found out.
  };

  static bool alike(const ReadingByRank& readings, std::int32_t n_ranks);
  static std::optional<Division> divided(const ReadingByRank& readings);
  static std::optional<Apart> judged(std::int32_t nth,
                                     const ReadingByRank& readings,
                                     const Passes& passes);
  static void end_pass(std::int32_t nth, Passes& passes);

  std::map<SplitPlace, Passes> passes_;
};

}  // namespace lockstep::laws
