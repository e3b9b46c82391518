// Whether a sample's number stands for the same row on every rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Matches the numbers that a shared sampler hands out with the rows that forwards are given, in their order:
///
///     rank 0, epoch 0   numbers 4 0 2 6   rows  e a c g
///     rank 1, epoch 1   numbers 0 3 5 1   rows  p s u q     number 0 is row a on rank 0, and p on rank 1
///
/// If a number always means one row on one rank, but another row on another rank, then ranks hold different data under
/// the same numbers, or prepare the same data differently. Where a program changes rows at random, or their order, a
/// number means several rows on one rank, and nothing is concluded.
class SampleRows {
 public:
  void on_epoch(const Event& event, const EpochEvent& epoch);
  void on_samples(const Event& event, const SampleEvent& samples);
  void on_input(const Event& event, const InputEvent& input);

  /// "A-samples-differ", at most once.
  std::optional<Advice> advice(const Wrappers& wrappers, const Worlds& worlds) const;

 private:
  struct Key {
    std::int32_t attempt = 0;
    std::int32_t rank = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  struct Read {
    std::int64_t id = 0;
    std::uint64_t row = 0;
  };

  struct Reader {
    NameId split = kNoName;         ///< Of the first sampler that ranks share.
    NameId argument = kNoName;      ///< Of the forward: the first that is recorded.
    WrapperKey wrapper;             ///< That is given its rows.
    std::vector<std::int64_t> ids;  ///< Handed out, and
    std::size_t n_matched = 0;      ///< how many of them have met their rows.
    std::vector<Read> reads;
    std::int32_t n_passes = 0;
  };

  struct Comparison {
    std::int64_t n_same_on_rank = 0;
    std::int64_t n_other_on_rank = 0;
    std::int64_t n_same_across = 0;
    std::int64_t n_other_across = 0;
    std::int64_t id = 0;  ///< The first that differs, and the two ranks.
    std::array<std::int32_t, 2> ranks = {0, 0};

    /// Two ranks that have read one number, and whether it meant the same row.
    void add(std::int64_t of, const std::array<std::int32_t, 2>& by, bool same);
  };

  Comparison compare(std::int32_t attempt) const;

  std::map<Key, Reader> readers_;
};

}  // namespace lockstep::laws
