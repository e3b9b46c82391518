// Doing again what was recorded, and recording it.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "lockstep/sim/strategy/detail/ready_queue.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

class Replay final : public ReplayStrategy {
 public:
  explicit Replay(std::vector<ActionId> picks) : picks_(std::move(picks)) {}

  void start(std::int32_t /*n_ranks*/) override {
    queue_.clear();
    enabled_.clear();
    next_ = 0;
    diverged_ = false;
  }

  void on_enabled(const Action& action) override {
    queue_.push(action.id);
    enabled_.insert(action.id);
  }

  void on_disabled(ActionId id) override {
    enabled_.erase(id);
    queue_.remove(id);
  }

  ActionId pick() override {
    if (!diverged_ && next_ < picks_.size()) {
      const ActionId id = picks_[next_++];
      if (enabled_.erase(id) == 1) {
        queue_.remove(id);
        return id;
      }
      diverged_ = true;
    }
    const ActionId id = queue_.pop();
    enabled_.erase(id);
    return id;
  }

  std::string describe() const override {
    return "replay of " + std::to_string(picks_.size()) + " picks";
  }

  bool diverged() const override { return diverged_; }

 private:
  std::vector<ActionId> picks_;
  std::size_t next_ = 0;
  bool diverged_ = false;
  ReadyQueue queue_;  // What round robin would do after the last pick.
  std::set<ActionId> enabled_;
};

class Recording final : public RecordingStrategy {
 public:
  explicit Recording(Strategy& inner) : inner_(&inner) {}

  void start(std::int32_t n_ranks) override {
    picks_.clear();
    inner_->start(n_ranks);
  }

  void on_enabled(const Action& action) override { inner_->on_enabled(action); }

  void on_disabled(ActionId id) override { inner_->on_disabled(id); }

  ActionId pick() override {
    picks_.push_back(inner_->pick());
    return picks_.back();
  }

  std::string describe() const override { return inner_->describe(); }

  const std::vector<ActionId>& picks() const override { return picks_; }

 private:
  Strategy* inner_;
  std::vector<ActionId> picks_;
};

}  // namespace

std::unique_ptr<ReplayStrategy> make_replay(std::vector<ActionId> picks) {
  return std::make_unique<Replay>(std::move(picks));
}

std::unique_ptr<RecordingStrategy> make_recording(Strategy& inner) {
  return std::make_unique<Recording>(inner);
}

}  // namespace lockstep::sim
