// The two orderly strategies: a queue, and a queue whose first may continue.
#include <cstddef>
#include <memory>

#include "lockstep/sim/strategy/detail/ready_queue.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

class RoundRobin final : public Strategy {
 public:
  void start(std::int32_t /*n_ranks*/) override { queue_.clear(); }

  void on_enabled(const Action& action) override { queue_.push(action.id); }

  void on_disabled(ActionId id) override { queue_.remove(id); }

  ActionId pick() override { return queue_.pop(); }

  ActionId expected(std::size_t ahead) const override { return queue_.peek(ahead); }

  std::string describe() const override { return "round-robin"; }

 private:
  ReadyQueue queue_;
};

class RunToBlock final : public Strategy {
 public:
  void start(std::int32_t /*n_ranks*/) override {
    queue_.clear();
    has_current_ = false;
    current_enabled_ = false;
  }

  void on_enabled(const Action& action) override {
    if (has_current_ && !current_enabled_ && action.id == current_ && !action.polls) {
      current_enabled_ = true;
    } else {
      queue_.push(action.id);
    }
  }

  void on_disabled(ActionId id) override {
    if (current_enabled_ && id == current_) {
      current_enabled_ = false;
    } else {
      queue_.remove(id);
    }
  }

  ActionId pick() override {
    if (!current_enabled_) current_ = queue_.pop();
    has_current_ = true;
    current_enabled_ = false;
    return current_;
  }

  ActionId expected(std::size_t ahead) const override { return queue_.peek(ahead); }

  std::string describe() const override { return "run-to-block"; }

 private:
  ReadyQueue queue_;
  ActionId current_{};  // The last pick; continues if enabled again before any other pick.
  bool has_current_ = false;
  bool current_enabled_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_round_robin() { return std::make_unique<RoundRobin>(); }

std::unique_ptr<Strategy> make_run_to_block() { return std::make_unique<RunToBlock>(); }

}  // namespace lockstep::sim
