// The store of a job: keys and values that all ranks share, and who waits for which keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/types.h"

namespace lockstep::sim {

/// c10d's store as one table. It waits for nothing itself: a rank that needs keys says so, and
/// `wake` is called once they are all there.
///
/// Source: torch.distributed.TCPStore, whose answers these are.
class StoreTable {
 public:
  using Contents = std::map<std::string, std::string, std::less<>>;

  StoreTable() = default;

  explicit StoreTable(Contents contents) : contents_(std::move(contents)) {}

  /// Called with ranks whose keys have come, in the order in which they began to wait.
  void on_arrival(std::function<void(Rank)> wake) { wake_ = std::move(wake); }

  void set(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key) const;
  void append(std::string_view key, std::string_view value);
  /// Errors: what is there is not a number.
  Result<std::int64_t> add(std::string_view key, std::int64_t amount);
  /// Returns: what is there afterwards; where the key is missing and something was expected,
  ///     `expected`.
  std::string compare_set(std::string_view key,
                          std::string_view expected,
                          std::string_view desired);
  bool remove(std::string_view key);

  bool has_all(const std::vector<std::string>& keys) const;

  std::int64_t n_keys() const { return static_cast<std::int64_t>(contents_.size()); }

  const Contents& contents() const { return contents_; }

  /// Requires: the rank waits for nothing here.
  void wait(Rank rank, std::vector<std::string> keys);
  void stop_waiting(Rank rank);
  bool waits(Rank rank) const;

 private:
  struct Waiter {
    Rank rank{};
    std::vector<std::string> keys;
  };

  void arrived();

  Contents contents_;
  std::vector<Waiter> waiters_;
  std::function<void(Rank)> wake_;
};

/// The keys of a request that names several: "a", "b" of "a\0b".
std::vector<std::string> split_keys(std::string_view joined);

}  // namespace lockstep::sim
