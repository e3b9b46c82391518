// Whether ranks made their optimizers alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/detail/open_ballots.h"

namespace lockstep::laws {

/// Compares what `options` events say, parameter group by parameter group: the kind first, since
/// optimizers of two kinds have different options, then every option but the learning rate, which is
/// judged at each step. Ranks with the same parameters must have them in the same groups; those with
/// other parameters have shares of one optimizer, such as ZeRO's.
class OptionVotes {
 public:
  /// What a law that compares optimizers has anyway. Requires: all of it outlives the votes.
  struct Of {
    std::int32_t n_ranks;
    const Wrappers& wrappers;
    Counter& counter;
    EarliestFindings& findings;
  };

  explicit OptionVotes(const Of& of) : of_(of) {}

  void on_options(const Event& event,
                  const OptimizerEvent& options,
                  RankRange who,
                  const NameTable& names);

  /// Judges what is left, and whether parameters are in the same groups everywhere.
  void finish(const NameTable& names);

  std::int64_t n_checked() const { return n_checked_; }

 private:
  void vote(const Event& event,
            const AlignmentKey& alignment,
            OpenBallots::Vote vote,
            const NameTable& names);
  void judge(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names);

  /// The parameter group of each parameter, as one rank has it.
  struct Grouping {
    std::map<std::string, std::int32_t> groups;
    std::int32_t step = 0;
  };

  using Groupings = std::map<std::int32_t, Grouping>;  // By rank.

  /// The first parameter, by its name, that ranks with the same ones have in different groups.
  void report_groups(WrapperKey wrapper, const Groupings& ranks);

  Of of_;
  OpenBallots open_;
  std::map<WrapperKey, Groupings> groupings_;
  std::int64_t n_checked_ = 0;
};

/// An optimizer of nothing but local parameters is each rank's own.
bool is_of_ignored(const Wrappers& wrappers,
                   WrapperKey wrapper,
                   std::span<const NameId> layout,
                   const NameTable& names);

/// "0.5 on rank 1, 0.1 on ranks 0, 2": the side with fewer ranks first.
template <typename Text>
std::string sides_text(const Ballot& ballot, std::size_t word, Text text_of) {
  const std::vector<Rank> minority = ballot.minority(word);
  std::string first;
  std::string rest;
  for (const auto& [value, numbers] : ballot.sides(word)) {
    std::vector<Rank> ranks;
    ranks.reserve(numbers.size());
    for (const std::int32_t rank : numbers) ranks.push_back(Rank{rank});
    const bool odd = std::find(minority.begin(), minority.end(), ranks.front()) != minority.end();
    std::string& text = odd ? first : rest;
    text += (text.empty() ? "" : ", ") + text_of(value) + " on " + ranks_text(ranks);
  }
  return first + ", " + rest;
}

}  // namespace lockstep::laws
