// Every enabled action with the same probability.
#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/sim/strategy/detail/split_mix.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

class Random final : public Strategy {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed), stream_(seed) {}

  void start(std::int32_t n_ranks) override {
    stream_ = SplitMix(seed_);
    enabled_.clear();
    enabled_.reserve(static_cast<std::size_t>(n_ranks) + 16);
  }

  void on_enabled(const Action& action) override { enabled_.push_back(action.id); }

  void on_disabled(ActionId id) override {
    for (std::size_t i = enabled_.size(); i-- > 0;) {
      if (enabled_[i] == id) return take(i);
    }
  }

  ActionId pick() override {
    const std::size_t i = stream_.below(enabled_.size());
    const ActionId id = enabled_[i];
    take(i);
    return id;
  }

  // The rank that was picked last is in the list again by then, at its end.
  ActionId expected(std::size_t ahead) const override {
    const std::size_t i = stream_.peek_below(enabled_.size() + 1, ahead);
    return i < enabled_.size() ? enabled_[i] : kNoAction;
  }

  std::string describe() const override { return "random:seed=" + std::to_string(seed_); }

 private:
  void take(std::size_t i) {
    enabled_[i] = enabled_.back();
    enabled_.pop_back();
  }

  std::uint64_t seed_;
  SplitMix stream_;
  std::vector<ActionId> enabled_;
};

}  // namespace

std::unique_ptr<Strategy> make_random(std::uint64_t seed) { return std::make_unique<Random>(seed); }

}  // namespace lockstep::sim
