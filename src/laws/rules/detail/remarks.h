// What recorders remark on a program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Some mistakes look alike on all ranks and leave no numbers that could be compared: the recorder sees them happen, and says so in
/// a `log` event. Its words are for people; which advice they become is decided by what the line is about.
class Remarks {
 public:
  explicit Remarks(LogKind about) : about_(about) {}

  /// Errors: none. Lines about anything else are left alone.
  void on_event(const Event& event, RankRange who);

  /// One advice for all remarks, each with its ranks, in the order of their words: "ranks 0, 1: TEXT". `so` says what follows from it.
  std::optional<Advice> advice(std::string_view id,
                               std::string_view so,
                               const NameTable& names) const;

 private:
  LogKind about_;
  std::map<NameId, std::vector<Rank>> ranks_;  // By text.
};

}  // namespace lockstep::laws
