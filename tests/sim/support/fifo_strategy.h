// Two strategies of the tests' own: those of sim/strategy live above the room under test.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim::testing {

class FifoStrategy : public Strategy {
 public:
  void start(std::int32_t /*n_ranks*/) override { queue_.clear(); }

  void on_enabled(const Action& action) override { queue_.push_back(action.id); }

  void on_disabled(ActionId id) override { std::erase(queue_, id); }

  ActionId pick() override {
    const ActionId id = queue_.front();
    queue_.pop_front();
    return id;
  }

  std::string describe() const override { return "fifo"; }

 private:
  std::deque<ActionId> queue_;
};

class SeededStrategy final : public Strategy {
 public:
  explicit SeededStrategy(std::uint64_t seed) : state_(seed) {}

  void start(std::int32_t /*n_ranks*/) override { enabled_.clear(); }

  void on_enabled(const Action& action) override { enabled_.push_back(action.id); }

  void on_disabled(ActionId id) override { std::erase(enabled_, id); }

  ActionId pick() override {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    const std::size_t i = (state_ >> 33U) % enabled_.size();
    const ActionId id = enabled_[i];
    enabled_[i] = enabled_.back();
    enabled_.pop_back();
    return id;
  }

  std::string describe() const override { return "seeded"; }

 private:
  std::uint64_t state_;
  std::vector<ActionId> enabled_;
};

}  // namespace lockstep::sim::testing
