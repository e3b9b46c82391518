#include "lockstep/sim/process/store_table.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lockstep::sim {

namespace {

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void StoreTable::set(std::string_view key, std::string_view value) {
  contents_.insert_or_assign(std::string(key), std::string(value));
  arrived();
}

std::optional<std::string> StoreTable::get(std::string_view key) const {
  const auto found = contents_.find(key);
  if (found == contents_.end()) return std::nullopt;
  return found->second;
}

void StoreTable::append(std::string_view key, std::string_view value) {
  contents_[std::string(key)] += value;
  arrived();
}

Result<std::int64_t> StoreTable::add(std::string_view key, std::int64_t amount) {
  const auto found = contents_.find(key);
  std::int64_t sum = amount;
  if (found != contents_.end()) {
    const std::optional<std::int64_t> before = number_of(found->second);
    if (!before || __builtin_add_overflow(*before, amount, &sum)) {
      return Error{"add to key '" + std::string(key) + "' of the store: its value '" +
                       found->second.substr(0, 64) + "' is not a number, or the sum is too large",
                   {}};
    }
  }
  set(key, std::to_string(sum));
  return sum;
}

std::string StoreTable::compare_set(std::string_view key,
                                    std::string_view expected,
                                    std::string_view desired) {
  const auto found = contents_.find(key);
  if (found == contents_.end() && !expected.empty()) return std::string(expected);
  if (found != contents_.end() && found->second != expected) return found->second;
  set(key, desired);
  return std::string(desired);
}

bool StoreTable::remove(std::string_view key) {
  const auto found = contents_.find(key);
  if (found == contents_.end()) return false;
  contents_.erase(found);
  return true;
}

bool StoreTable::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(
      keys.begin(), keys.end(), [this](const std::string& key) { return contents_.contains(key); });
}

void StoreTable::wait(Rank rank, std::vector<std::string> keys) {
  waiters_.push_back({.rank = rank, .keys = std::move(keys)});
}

void StoreTable::stop_waiting(Rank rank) {
  std::erase_if(waiters_, [rank](const Waiter& waiter) { return waiter.rank == rank; });
}

bool StoreTable::waits(Rank rank) const {
  return std::any_of(waiters_.begin(), waiters_.end(), [rank](const Waiter& waiter) {
    return waiter.rank == rank;
  });
}

void StoreTable::arrived() {
  std::vector<Rank> ready;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (!has_all(waiter.keys)) return false;
    ready.push_back(waiter.rank);
    return true;
  });
  for (const Rank rank : ready) {
    if (wake_) wake_(rank);
  }
}

std::vector<std::string> split_keys(std::string_view joined) {
  std::vector<std::string> keys;
  for (;;) {
    const std::size_t end = joined.find('\0');
    keys.emplace_back(joined.substr(0, end));
    if (end == std::string_view::npos) return keys;
    joined.remove_prefix(end + 1);
  }
}

}  // namespace lockstep::sim
