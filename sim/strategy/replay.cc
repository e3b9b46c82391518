// Doing again what was recorded, and recording it.
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "lockstep/sim/strategy/detail/default_order.h"
#include "lockstep/sim/strategy/detail/plain_strategy.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

/// Deviations by place, each place's in the order of recording.
class Deviations {
 public:
  explicit Deviations(const std::vector<Deviation>& all) : all_(all), by_pick_(all.size()) {
    std::iota(by_pick_.begin(), by_pick_.end(), std::size_t{0});
    std::stable_sort(by_pick_.begin(), by_pick_.end(), [this](std::size_t a, std::size_t b) {
      return place(all_[a]) < place(all_[b]);
    });
    start();
  }

  void start() { tried_.assign(all_.size(), Fate::kWaiting); }

  /// The action to pick instead of `expected`, or `expected` itself.
  ActionId instead_of(ActionId expected, const DefaultOrder& order) {
    const PickKey here{expected, order.n_picks_of(expected)};
    auto at = std::lower_bound(
        by_pick_.begin(), by_pick_.end(), here, [this](std::size_t i, const PickKey& p) {
          return place(all_[i]) < p;
        });
    for (; at != by_pick_.end() && place(all_[*at]) == here; ++at) {
      Fate& fate = tried_[*at];
      if (fate != Fate::kWaiting) continue;
      const ActionId picked = all_[*at].picked;
      fate = order.contains(picked) ? Fate::kUsed : Fate::kImpossible;
      if (fate == Fate::kUsed) return picked;
    }
    return expected;
  }

  std::vector<Deviation> unused() const {
    std::vector<Deviation> rest;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (tried_[i] != Fate::kUsed) rest.push_back(all_[i]);
    }
    return rest;
  }

 private:
  using PickKey = std::pair<ActionId, std::uint64_t>;
  enum class Fate : std::uint8_t { kWaiting, kUsed, kImpossible };

  static PickKey place(const Deviation& deviation) { return {deviation.expected, deviation.op}; }

  std::vector<Deviation> all_;
  std::vector<std::size_t> by_pick_;
  std::vector<Fate> tried_;  // As all_.
};

class Replay final : public ReplayStrategy {
 public:
  Replay(const Schedule& schedule, std::unique_ptr<Strategy> then)
      : schedule_(schedule), deviations_(schedule.deviations), then_(std::move(then)) {}

  void start(std::int32_t n_ranks) override {
    order_.start(n_ranks);
    deviations_.start();
    n_picks_ = 0;
    if (then_ != nullptr) then_->start(n_ranks);
  }

  void on_enabled(const Action& action) override {
    order_.enable(action);
    if (then_ != nullptr) then_->on_enabled(action);
  }

  void on_disabled(ActionId id) override {
    order_.disable(id);
    if (then_ != nullptr) then_->on_disabled(id);
  }

  ActionId pick() override {
    const bool handed_over = then_ != nullptr && n_picks_ >= schedule_.n_picks;
    ++n_picks_;
    const ActionId id = handed_over ? then_->pick() : deviations_.instead_of(order_.next(), order_);
    order_.take(id);
    if (then_ != nullptr && !handed_over) then_->on_disabled(id);
    return id;
  }

  std::string describe() const override { return encode_schedule(schedule_); }

  std::vector<Deviation> skipped() const override { return deviations_.unused(); }

 private:
  Schedule schedule_;
  Deviations deviations_;
  std::unique_ptr<Strategy> then_;
  DefaultOrder order_;
  std::uint64_t n_picks_ = 0;
};

class Recording final : public RecordingStrategy {
 public:
  explicit Recording(Strategy& inner) : inner_(&inner) {}

  void start(std::int32_t n_ranks) override {
    schedule_ = Schedule{};
    order_.start(n_ranks);
    inner_->start(n_ranks);
  }

  void on_enabled(const Action& action) override {
    order_.enable(action);
    inner_->on_enabled(action);
  }

  void on_disabled(ActionId id) override {
    order_.disable(id);
    inner_->on_disabled(id);
  }

  ActionId pick() override {
    const ActionId id = inner_->pick();
    if (id != order_.next()) schedule_.deviations.push_back(order_.deviation(id));
    order_.take(id);
    ++schedule_.n_picks;
    return id;
  }

  ActionId expected(std::size_t ahead) const override { return inner_->expected(ahead); }

  std::string describe() const override { return inner_->describe(); }

  bool watches() const override { return inner_->watches(); }

  void on_touch(std::uint64_t object) override { inner_->on_touch(object); }

  void on_quiet() override { inner_->on_quiet(); }

  const Schedule& schedule() const override { return schedule_; }

 private:
  Strategy* inner_;
  DefaultOrder order_;
  Schedule schedule_;
};

}  // namespace

Result<std::unique_ptr<ReplayStrategy>> make_replay(const Schedule& schedule) {
  std::unique_ptr<Strategy> then;
  if (!schedule.then.empty()) {
    auto made = make_plain_strategy(schedule.then, 0);
    if (!made.ok()) return made.error();
    then = std::move(made).value();
  }
  return std::unique_ptr<ReplayStrategy>(std::make_unique<Replay>(schedule, std::move(then)));
}

std::unique_ptr<RecordingStrategy> make_recording(Strategy& inner) {
  return std::make_unique<Recording>(inner);
}

}  // namespace lockstep::sim
