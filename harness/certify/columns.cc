#include "lockstep/harness/certify/detail/columns.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace lockstep {
namespace {

using Key = std::pair<std::int32_t, std::int64_t>;

/// The samples that a rank reads in a window.
std::set<std::int64_t> ids_of(const RankWindow& window) {
  std::set<std::int64_t> ids;
  for (const ProbedMicro& micro : window.micros) ids.insert(micro.ids.begin(), micro.ids.end());
  return ids;
}

/// The samples of each window, each once.
std::vector<std::vector<Key>> samples_of(const std::vector<std::vector<RankWindow>>& ranks) {
  std::vector<std::vector<Key>> windows;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    windows.resize(std::max(windows.size(), ranks[r].size()));
    for (std::size_t w = 0; w < ranks[r].size(); ++w) {
      for (const std::int64_t id : ids_of(ranks[r][w])) {
        windows[w].emplace_back(static_cast<std::int32_t>(r), id);
      }
    }
  }
  return windows;
}

/// Which columns are in use in which window.
class ColumnMap {
 public:
  explicit ColumnMap(const std::vector<std::vector<Key>>& windows) : taken_(windows.size()) {
    for (std::size_t w = 0; w < windows.size(); ++w) {
      for (const Key& key : windows[w]) windows_with_[key].push_back(w);
    }
  }

  void place(const Key& key) {
    if (columns_.of.contains(key)) return;
    std::int64_t column = 0;
    while (is_taken_near(key, column)) ++column;
    columns_.of.emplace(key, column);
    columns_.n = std::max(columns_.n, column + 1);
    for (const std::size_t w : windows_with_.at(key)) taken_[w].insert(column);
  }

  Columns take() { return std::move(columns_); }

 private:
  bool is_taken_near(const Key& key, std::int64_t column) const {
    const std::vector<std::size_t>& own = windows_with_.at(key);
    return std::any_of(own.begin(), own.end(), [&](std::size_t w) {
      return is_taken(w, column) || (w > 0 && is_taken(w - 1, column)) || is_taken(w + 1, column);
    });
  }

  bool is_taken(std::size_t window, std::int64_t column) const {
    return window < taken_.size() && taken_[window].contains(column);
  }

  std::map<Key, std::vector<std::size_t>> windows_with_;
  std::vector<std::set<std::int64_t>> taken_;
  Columns columns_;
};

}  // namespace

Columns choose_columns(const std::vector<std::vector<RankWindow>>& ranks) {
  const std::vector<std::vector<Key>> windows = samples_of(ranks);
  ColumnMap columns(windows);
  for (const std::vector<Key>& window : windows) {
    for (const Key& key : window) columns.place(key);
  }
  return columns.take();
}

}  // namespace lockstep
