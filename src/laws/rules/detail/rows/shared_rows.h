// Rows that ranks train on without a sampler or a loader that would say which ones they are.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/rows/row_passes.h"
#include "lockstep/laws/rules/detail/samples/split_place.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Compares what the forwards of a wrapper are given on each rank, row by row.
///
/// A program may divide its data by lists of its own. Then no event says which samples a rank reads, but their values
/// do: where ranks read each other's rows before any has read one of its own again, the data are not divided, or not by
/// all ranks alike. Programs may share rows on purpose; hence advice.
class SharedRows {
 public:
  void add(const Event& event, const InputEvent& input);

  /// A sampler or a loader says what is read there: then it knows better whether rows may be shared.
  void add_source(const SplitPlace& place) { sources_.insert(place); }

  /// "A-rows-shared" and "A-same-inputs", each at most once.
  std::vector<Advice> advice(const Wrappers& wrappers,
                             const Worlds& worlds,
                             const NameTable& names) const;

 private:
  struct Place {
    WrapperKey wrapper;
    NameId argument = kNoName;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  struct Own {
    bool is_wide = false;  ///< Rows have several real numbers each.
    RowList forwards;
    std::vector<std::int32_t> steps;  ///< Of each, on rank 0.
  };

  using OwnByRank = std::map<std::int32_t, Own>;

  static std::optional<Forwards> forwards_of(const Place& place,
                                             const OwnByRank& by_rank,
                                             const Wrappers& wrappers,
                                             const Worlds& worlds);
  /// Each forward was given other rows than the one before, and none of them twice.
  static bool is_news(const RowList& own, std::size_t n);
  /// And the same on all ranks.
  static bool is_same(const Forwards& forwards);
  static Advice same_inputs(const Place& place, const NameTable& names);
  /// Ranks were given different rows in most forwards.
  static bool differs(const Forwards& forwards);
  static std::optional<Advice> shared(const Place& place,
                                      const OwnByRank& by_rank,
                                      const Forwards& forwards,
                                      const NameTable& names);
  /// Some ranks, and not all, were given the same rows in each forward.
  static std::optional<Advice> twins(const Place& place,
                                     const OwnByRank& by_rank,
                                     const Forwards& forwards,
                                     const NameTable& names);

  std::optional<Advice> rows_shared(const Wrappers& wrappers,
                                    const Worlds& worlds,
                                    const NameTable& names) const;
  std::optional<Advice> noise_shared(const Wrappers& wrappers,
                                     const Worlds& worlds,
                                     const NameTable& names) const;
  bool has_source(std::int32_t attempt, const NameTable& names) const;

  std::map<Place, OwnByRank> read_;
  std::set<SplitPlace> sources_;
};

}  // namespace lockstep::laws
