// Tables by which ranks number words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A number has one meaning only where all ranks number in one order.
///
///   rank 0: cat 0, dog 1, owl 2     rank 1: dog 0, cat 1, owl 2     other labels for the same pictures
///
/// Ranks whose words differ have tables of their own. An order of words may be one of work as well, hence advice.
class Numberings {
 public:
  /// Of kVocabulary and kNumbering. Of each rank the first table of a name counts.
  void add(const Event& event, const DataEvent& data);

  /// "A-numbered-apart", at most once.
  std::optional<Advice> advice(const NameTable& names) const;

 private:
  struct Table {
    std::uint64_t words = 0;    ///< Whatever their numbers are.
    std::uint64_t numbers = 0;  ///< Of these words.
  };

  using TableByRank = std::map<std::int32_t, Table>;

  static std::vector<Rank> apart(const TableByRank& by_rank);

  std::map<std::pair<std::int32_t, NameId>, TableByRank> tables_;  // By attempt and name.
};

}  // namespace lockstep::laws
