#include "lockstep/sim/strategy/uniform.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/sim/strategy/detail/split_mix.h"
#include "lockstep/sim/strategy/detail/weighted_set.h"

namespace lockstep::sim {

namespace {

/// How far a rank is, beside what it did when its resumptions were counted.
class RankProgress {
 public:
  explicit RankProgress(const std::vector<std::uint64_t>* stretches) : stretches_(stretches) {
    next_stretch();
  }

  void advance() {
    if (left_ > 0) --left_;
    at_start_ = false;
    if (left_ == 0) next_stretch();
  }

  /// It had to wait, which ends a stretch: also one that was counted as longer, because it has met
  /// operations that were completed before it waited.
  void waited() {
    if (!at_start_) next_stretch();
  }

  /// Resumptions until it must wait; 1 where nothing is known.
  std::uint64_t weight() const { return std::max<std::uint64_t>(left_, 1); }

 private:
  void next_stretch() {
    at_start_ = true;
    left_ = stretches_ != nullptr && next_ < stretches_->size() ? (*stretches_)[next_++] : 0;
  }

  const std::vector<std::uint64_t>* stretches_;
  std::size_t next_ = 0;
  std::uint64_t left_ = 0;  // Of the current stretch.
  bool at_start_ = true;    // Of it.
};

class Uniform final : public Strategy {
 public:
  explicit Uniform(UniformOptions options) : options_(std::move(options)), stream_(options_.seed) {}

  void start(std::int32_t n_ranks) override {
    stream_ = SplitMix(options_.seed);
    enabled_.clear();
    others_.clear();
    other_places_.clear();
    free_.clear();
    ranks_.clear();
    picked_.reset();
    const auto& lengths = options_.lengths.stretches;
    for (std::size_t r = 0; r < static_cast<std::size_t>(n_ranks); ++r) {
      ranks_.emplace_back(r < lengths.size() ? &lengths[r] : nullptr);
      enabled_.append();
    }
  }

  void on_enabled(const Action& action) override {
    const auto number = static_cast<std::size_t>(action.id);
    if (number < ranks_.size()) {
      if (picked_ != number) ranks_[number].waited();
      // Picking a rank that polls does not bring it nearer to its end.
      enabled_.set(number, action.polls ? 1 : ranks_[number].weight());
      return;
    }
    const std::size_t place = free_place();
    others_[place - ranks_.size()] = action.id;
    other_places_[action.id] = place;
    enabled_.set(place, 1);
  }

  void on_disabled(ActionId id) override { take(place_of(id)); }

  ActionId pick() override {
    const std::size_t place = enabled_.at(stream_.next() % enabled_.total());
    take(place);
    picked_ = place;
    if (place >= ranks_.size()) return others_[place - ranks_.size()];
    ranks_[place].advance();
    return static_cast<ActionId>(place);
  }

  std::string describe() const override {
    std::string text = "uniform:seed=" + std::to_string(options_.seed);
    if (!options_.lengths.stretches.empty()) text += ",lengths=" + encode_lengths(options_.lengths);
    return text;
  }

 private:
  std::size_t place_of(ActionId id) const {
    const auto number = static_cast<std::size_t>(id);
    return number < ranks_.size() ? number : other_places_.at(id);
  }

  /// For an action that is not a rank's.
  std::size_t free_place() {
    if (free_.empty()) {
      others_.emplace_back();
      return enabled_.append();
    }
    const std::size_t place = free_.back();
    free_.pop_back();
    return place;
  }

  void take(std::size_t place) {
    enabled_.set(place, 0);
    if (place < ranks_.size()) return;
    other_places_.erase(others_[place - ranks_.size()]);
    free_.push_back(place);
  }

  UniformOptions options_;
  SplitMix stream_;
  std::vector<RankProgress> ranks_;
  WeightedSet enabled_;  // Ranks by number, then other actions; weight 0: not enabled.
  std::vector<ActionId> others_;
  std::map<ActionId, std::size_t> other_places_;
  std::vector<std::size_t> free_;      // Places of other actions that are not in use.
  std::optional<std::size_t> picked_;  // The place picked last.
};

}  // namespace

std::unique_ptr<Strategy> make_uniform(const UniformOptions& options) {
  return std::make_unique<Uniform>(options);
}

}  // namespace lockstep::sim
