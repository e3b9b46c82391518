// Every enabled action with the same probability.
#include <memory>
#include <vector>

#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

class Random final : public Strategy {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  void start(std::int32_t n_ranks) override {
    state_ = seed_;
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
    // Multiply-shift instead of a remainder: its bias is below 2^-32 for any world that fits
    // memory.
    const std::uint64_t word = next() >> 32U;
    const auto i = static_cast<std::size_t>((word * enabled_.size()) >> 32U);
    const ActionId id = enabled_[i];
    take(i);
    return id;
  }

  std::string describe() const override { return "random:seed=" + std::to_string(seed_); }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014): one addition of state, so a seed is the whole state.
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  void take(std::size_t i) {
    enabled_[i] = enabled_.back();
    enabled_.pop_back();
  }

  std::uint64_t seed_;
  std::uint64_t state_ = 0;
  std::vector<ActionId> enabled_;
};

}  // namespace

std::unique_ptr<Strategy> make_random(std::uint64_t seed) { return std::make_unique<Random>(seed); }

}  // namespace lockstep::sim
