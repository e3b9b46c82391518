#include "lockstep/laws/rules/detail/samples/numberings.h"

#include <string>
#include <vector>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::int32_t kMostNamed = 3;

}  // namespace

void Numberings::add(const Event& event, const DataEvent& data) {
  Table& table = tables_[{event.at.attempt, data.source}][to_int(event.rank)];
  std::uint64_t& digest = data.part == DataPart::kVocabulary ? table.words : table.numbers;
  if (digest == 0) digest = data.digest;
}

/// Ranks that have the words of the lowest one and number them otherwise.
std::vector<Rank> Numberings::apart(const TableByRank& by_rank) {
  const Table& first = by_rank.begin()->second;
  std::vector<Rank> ranks;
  for (const auto& [rank, table] : by_rank) {
    const bool whole = table.numbers != 0 && first.numbers != 0;  // Else the rank died on the way.
    if (whole && table.words == first.words && table.numbers != first.numbers)
      ranks.push_back(Rank{rank});
  }
  return ranks;
}

std::optional<Advice> Numberings::advice(const NameTable& names) const {
  std::string found;
  std::int32_t n_found = 0;
  for (const auto& [place, by_rank] : tables_) {
    const std::vector<Rank> ranks = apart(by_rank);
    if (ranks.empty() || ++n_found > kMostNamed) continue;
    found += (found.empty() ? "" : "; ") + std::string(names.text(place.second)) + " (" +
             ranks_text(ranks) + (ranks.size() == 1 ? " differs" : " differ") + " from rank " +
             std::to_string(by_rank.begin()->first) + ")";
  }
  if (n_found == 0) return std::nullopt;
  if (n_found > kMostNamed) found += "; and " + std::to_string(n_found - kMostNamed) + " more";
  return Advice{
      "A-numbered-apart",
      "the ranks number the same words in different orders: " + found +
          ". If such a table assigns sample, label or token ids, an id means something different "
          "on each rank. Build it in a deterministic order, such as that of sorted()."};
}

}  // namespace lockstep::laws
