// Ballots of places that not all ranks have reached yet, in bounded memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"

namespace lockstep::laws {

/// Collects what each rank reports at a place and hands the ballot over once all members have.
class OpenBallots {
 public:
  /// Ranks far apart keep this many places open; beyond them the oldest is judged as it stands.
  static constexpr std::size_t kMaxOpen = 4096;

  struct Vote {
    std::span<const std::uint64_t> words;
    RankRange who;
  };

  /// `judge(alignment, ballot)` is called for a ballot that is complete.
  template <typename Judge>
  void add(const AlignmentKey& alignment,
           const Event& event,
           std::span<const std::uint64_t> words,
           std::int32_t n_members,
           Judge&& judge) {
    add(alignment, event, Vote{words, one_rank(event)}, n_members, std::forward<Judge>(judge));
  }

  template <typename Judge>
  void add(const AlignmentKey& alignment,
           const Event& event,
           Vote vote,
           std::int32_t n_members,
           Judge&& judge) {
    const auto place = open_.try_emplace(alignment).first;
    place->second.add(event, vote.words, vote.who);
    if (place->second.n_ranks() >= n_members) {
      judge(place->first, place->second);
      open_.erase(place);
    } else if (open_.size() > kMaxOpen) {
      judge(open_.begin()->first, open_.begin()->second);
      open_.erase(open_.begin());
    }
  }

  /// Judges what is left.
  template <typename Judge>
  void finish(Judge&& judge) {
    for (const auto& [alignment, ballot] : open_) judge(alignment, ballot);
    open_.clear();
  }

 private:
  std::map<AlignmentKey, Ballot> open_;
};

/// Of each subject (a tensor, a field) of a wrapper only the earliest finding, whatever the order
/// in which ballots were completed.
class EarliestFindings {
 public:
  /// True when there is none of this subject at an earlier place.
  bool wants(const AlignmentKey& alignment, std::string_view subject) const {
    const auto known = first_.find({alignment.wrapper, std::string(subject)});
    return known == first_.end() || alignment < known->second.alignment;
  }

  void add(const AlignmentKey& alignment, std::string_view subject, Finding finding) {
    first_[{alignment.wrapper, std::string(subject)}] = {alignment, std::move(finding)};
  }

  /// Further ranks of a finding, if it is from this very place.
  void add_ranks(const AlignmentKey& alignment,
                 std::string_view subject,
                 const std::vector<Rank>& ranks) {
    const auto known = first_.find({alignment.wrapper, std::string(subject)});
    if (known == first_.end() || known->second.alignment != alignment) return;
    std::vector<Rank>& all = known->second.finding.ranks;
    all.insert(all.end(), ranks.begin(), ranks.end());
    std::sort(all.begin(), all.end());
  }

  std::vector<Finding> take() {
    std::vector<Finding> findings;
    findings.reserve(first_.size());
    for (auto& [subject, entry] : first_) findings.push_back(std::move(entry.finding));
    first_.clear();
    return findings;
  }

 private:
  struct Entry {
    AlignmentKey alignment;
    Finding finding;
  };

  std::map<std::pair<WrapperKey, std::string>, Entry> first_;
};

}  // namespace lockstep::laws
