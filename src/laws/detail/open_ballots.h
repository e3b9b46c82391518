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

/// Collects what each rank says at a place and hands the ballot over once all members have spoken.
class OpenBallots {
 public:
  /// Ranks far apart keep this many places open; beyond them the oldest is judged as it stands.
  static constexpr std::size_t kMostOpen = 4096;

  struct Said {
    std::span<const std::uint64_t> words;
    Speakers who;
  };

  /// `judge(meeting, ballot)` is called for a ballot that is complete.
  template <typename Judge>
  void add(const Meeting& meeting,
           const Event& event,
           std::span<const std::uint64_t> words,
           std::int32_t n_members,
           Judge&& judge) {
    add(meeting, event, Said{words, speaker_of(event)}, n_members, std::forward<Judge>(judge));
  }

  template <typename Judge>
  void add(const Meeting& meeting,
           const Event& event,
           Said said,
           std::int32_t n_members,
           Judge&& judge) {
    const auto place = open_.try_emplace(meeting).first;
    place->second.add(event, said.words, said.who);
    if (place->second.n_ranks() >= n_members) {
      judge(place->first, place->second);
      open_.erase(place);
    } else if (open_.size() > kMostOpen) {
      judge(open_.begin()->first, open_.begin()->second);
      open_.erase(open_.begin());
    }
  }

  /// Judges what is left.
  template <typename Judge>
  void finish(Judge&& judge) {
    for (const auto& [meeting, ballot] : open_) judge(meeting, ballot);
    open_.clear();
  }

 private:
  std::map<Meeting, Ballot> open_;
};

/// Of each subject (a tensor, a field) of a wrapper only the earliest finding, whatever the order
/// in which ballots were completed.
class EarliestFindings {
 public:
  /// True when there is none of this subject at an earlier place.
  bool wants(const Meeting& meeting, std::string_view subject) const {
    const auto known = first_.find({meeting.wrapper, std::string(subject)});
    return known == first_.end() || meeting < known->second.meeting;
  }

  void add(const Meeting& meeting, std::string_view subject, Finding finding) {
    first_[{meeting.wrapper, std::string(subject)}] = {meeting, std::move(finding)};
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
    Meeting meeting;
    Finding finding;
  };

  std::map<std::pair<WrapperKey, std::string>, Entry> first_;
};

}  // namespace lockstep::laws
