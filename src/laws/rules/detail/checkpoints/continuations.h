// Where restarts continued, and where they should have.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/laws/finding.h"

namespace lockstep::laws {

/// A restart continues from the newest checkpoint that was published before it.
class Continuations {
 public:
  /// Ranks of one restart that did not.
  struct Missed {
    std::int32_t attempt = 0;
    std::int64_t newest = -1;  ///< The step that had been published,
    std::int64_t found = -1;   ///< and what they found instead; -1: nothing.
    std::vector<Rank> ranks;
    /// Where it had been published and where they looked, if nothing was ever published there.
    std::string published_in = {};
    std::string looked_in = {};

    std::string message() const;

    Cause cause() const {
      return looked_in.empty() ? Cause::kReadBeforeCommit : Cause::kResumeElsewhere;
    }
  };

  void on_save(std::int32_t attempt, std::int64_t step, const std::string& folder);
  /// `step` -1: nothing was found in `folder`.
  void on_load(std::int32_t attempt, Rank rank, std::int64_t step, const std::string& folder);

  /// Training began anew on purpose.
  void on_fresh(std::int32_t attempt) { fresh_.insert(attempt); }

  /// In the order of attempts. `n_checked` grows by each restart that had something to find.
  std::vector<Missed> missed(std::int64_t& n_checked) const;

 private:
  using Steps = std::map<std::int32_t, std::int64_t>;  // By rank.

  Missed judge(std::int32_t attempt, const Steps& steps, std::int64_t newest) const;

  std::map<std::pair<std::int32_t, std::int64_t>, std::string> published_;  // With its folder.
  std::set<std::int32_t> fresh_;
  std::map<std::int32_t, Steps> loads_;            // By attempt.
  std::map<std::int32_t, std::string> looked_in_;  // By attempt, where nothing was found.
};

}  // namespace lockstep::laws
