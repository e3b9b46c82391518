// What ranks read where no id of a sample says it: subsets that they drew for themselves, and data
// that nothing divides among them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/rows/sample_rows.h"
#include "lockstep/laws/rules/detail/rows/shared_rows.h"
#include "lockstep/laws/rules/detail/samples/batch_repeats.h"
#include "lockstep/laws/rules/detail/samples/divided_rows.h"
#include "lockstep/laws/rules/detail/samples/held_sets.h"
#include "lockstep/laws/rules/detail/samples/later_passes.h"
#include "lockstep/laws/rules/detail/samples/numberings.h"
#include "lockstep/laws/rules/detail/samples/split_place.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Compares the data events of all ranks.
///
/// Ranks that divide a pass among themselves have to divide the same rows, and to hold the same
/// samples in one order. Ranks whose gradients are averaged have to read different batches: where the
/// values of all batches that were looked at are equal on all ranks, and are not all one value, the
/// ranks did the same work. Where nothing divides one data set among such ranks, and each reads it in
/// an order of its own, no sample of a first pass may be read by two of them. Tables that number the
/// words that samples consist of have to number them alike.
class DataRead {
 public:
  void on_event(const Event& event);

  /// At most one per way of reading and split. `worlds`: how many ranks there are.
  std::vector<Finding> findings(const Worlds& worlds, const NameTable& names) const;

  /// On what may be meant.
  std::vector<Advice> advice(const Worlds& worlds, const NameTable& names) const;

  std::int64_t n_checked() const { return n_checked_; }

 private:
  /// The batches that one rank has consumed.
  struct Batches {
    NameId source = kNoName;
    std::int32_t step = 0;  ///< Of the first one.
    std::vector<std::uint64_t> digests;
  };

  using BatchesByRank = std::map<std::int32_t, Batches>;

  /// The first pass of one rank over a data set that nothing divides.
  struct FirstPass {
    NameId source = kNoName;
    std::int32_t step = 0;
    std::uint64_t set = 0;  ///< What the data set holds.
    bool ended = false;
    std::size_t batch = 0;  ///< Samples in the largest of its batches.
    std::vector<std::int64_t> ids = {};
  };

  using PassesByRank = std::map<std::int32_t, FirstPass>;

  void on_data(const Event& event, const DataEvent& data);
  void on_pass(const Event& event, const DataEvent& data, std::int32_t n_ranks);
  void on_samples(const Event& event, const SampleEvent& samples);
  enum class Sharing : std::uint8_t;

  static bool in_one_order(const PassesByRank& by_rank);
  static bool overlap(const PassesByRank& by_rank);
  static Sharing sharing_of_own(const PassesByRank& by_rank);
  static Sharing sharing_of(const PassesByRank& by_rank, const NameTable& names);
  static std::optional<Finding> shared_samples(const SplitPlace& place,
                                               const PassesByRank& by_rank,
                                               const NameTable& names);
  static bool are_same(const BatchesByRank& by_rank);
  static std::optional<std::int64_t> repeats(const BatchesByRank& by_rank, const NameTable& names);
  static Finding same_batches(const SplitPlace& place,
                              const BatchesByRank& by_rank,
                              const NameTable& names);

  static std::optional<Advice> batches_repeat(const SplitPlace& place,
                                              const BatchesByRank& by_rank,
                                              const NameTable& names);
  std::optional<Finding> undivided(const Worlds& worlds, const NameTable& names) const;

  Wrappers wrappers_;
  LaterPasses later_;
  SampleRows sample_rows_;
  HeldSets held_;
  DividedRows rows_;
  Numberings numberings_;
  SharedRows shared_rows_;
  std::map<SplitPlace, BatchesByRank> batches_;
  std::map<SplitPlace, PassesByRank> passes_;
  std::int64_t n_checked_ = 0;
};

}  // namespace lockstep::laws
