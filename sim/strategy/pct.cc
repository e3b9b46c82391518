// The highest priority runs; a few times, one drops.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "lockstep/sim/strategy/detail/split_mix.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

struct Process {
  std::int64_t priority = 0;
  ActionId id{};

  friend bool operator<(const Process& a, const Process& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.id > b.id;
  }
};

class Pct final : public PctStrategy {
 public:
  explicit Pct(const PctOptions& options) : options_(options) {}

  void start(std::int32_t n_ranks) override {
    SplitMix stream(options_.seed);
    const auto n_changes = static_cast<std::size_t>(std::max(options_.depth, 1) - 1);
    changes_.resize(n_changes);
    for (std::uint64_t& change : changes_)
      change = stream.below(std::max<std::uint64_t>(options_.steps, 1));
    std::sort(changes_.begin(), changes_.end());
    next_change_ = 0;
    priorities_.resize(static_cast<std::size_t>(n_ranks));
    for (std::size_t r = 0; r < priorities_.size(); ++r) {
      priorities_[r] = initial(static_cast<ActionId>(r));
    }
    enabled_.clear();
    n_steps_ = 0;
    n_processes_ = priorities_.size();
    lowest_ = 0;
  }

  void on_enabled(const Action& action) override {
    const auto number = static_cast<std::uint64_t>(action.id);
    const bool is_rank = number < priorities_.size();
    if (!is_rank) ++n_processes_;
    if (is_rank && action.polls) priorities_[number] = --lowest_;
    enabled_.push_back({is_rank ? priorities_[number] : initial(action.id), action.id});
    std::push_heap(enabled_.begin(), enabled_.end());
  }

  void on_disabled(ActionId id) override {
    std::erase_if(enabled_, [id](const Process& process) { return process.id == id; });
    std::make_heap(enabled_.begin(), enabled_.end());
  }

  ActionId pick() override {
    for (; next_change_ < changes_.size() && changes_[next_change_] == n_steps_; ++next_change_) {
      fall(static_cast<std::int64_t>(changes_.size() - next_change_));
    }
    ++n_steps_;
    std::pop_heap(enabled_.begin(), enabled_.end());
    const ActionId id = enabled_.back().id;
    enabled_.pop_back();
    return id;
  }

  std::string describe() const override {
    return "pct:depth=" + std::to_string(options_.depth) +
           ",steps=" + std::to_string(options_.steps) + ",seed=" + std::to_string(options_.seed);
  }

  const PctOptions& options() const override { return options_; }

  std::uint64_t n_processes() const override { return n_processes_; }

  std::uint64_t n_steps() const override { return n_steps_; }

 private:
  // Above all that fell, whose priorities are below 2^32.
  std::int64_t initial(ActionId id) const {
    SplitMix stream(options_.seed ^ (static_cast<std::uint64_t>(id) * 0xd1342543de82ef95U));
    return static_cast<std::int64_t>((stream.next() >> 2U) | (std::uint64_t{1} << 61U));
  }

  void fall(std::int64_t priority) {
    std::pop_heap(enabled_.begin(), enabled_.end());
    Process& process = enabled_.back();
    process.priority = priority;
    const auto number = static_cast<std::uint64_t>(process.id);
    if (number < priorities_.size()) priorities_[number] = priority;
    std::push_heap(enabled_.begin(), enabled_.end());
  }

  PctOptions options_;
  std::vector<std::uint64_t> changes_;  // Ascending picks.
  std::size_t next_change_ = 0;
  std::vector<std::int64_t> priorities_;  // By rank.
  std::vector<Process> enabled_;          // A heap.
  std::uint64_t n_steps_ = 0;
  std::uint64_t n_processes_ = 0;
  std::int64_t lowest_ = 0;  // Of those that polled.
};

}  // namespace

std::unique_ptr<PctStrategy> make_pct(const PctOptions& options) {
  return std::make_unique<Pct>(options);
}

double pct_bound(std::uint64_t n_processes, std::uint64_t n_steps, std::int32_t depth) {
  return 1.0 / (static_cast<double>(n_processes) *
                std::pow(static_cast<double>(n_steps), static_cast<double>(depth - 1)));
}

}  // namespace lockstep::sim
