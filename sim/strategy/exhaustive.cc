#include "lockstep/sim/strategy/exhaustive.h"

#include <algorithm>
#include <map>

#include "lockstep/sim/strategy/detail/choices.h"
#include "lockstep/sim/strategy/detail/default_order.h"

namespace lockstep::sim {

namespace {

class Search final : public Exhaustive {
 public:
  explicit Search(const ExhaustiveOptions& options) : options_(options) {}

  bool next() override {
    if (!started_) return started_ = true;
    ++(redundant_ ? counts_.n_redundant : counts_.n_explored);
    if (options_.reduce) {
      for (std::size_t j = n_known_; j < choices_.size(); ++j) choices_.look_for_races(j);
    }
    return back_up();
  }

  void start(std::int32_t n_ranks) override {
    n_ranks_ = static_cast<std::uint64_t>(n_ranks);
    order_.start(n_ranks);
    schedule_ = Schedule{};
    rank_enablers_.assign(n_ranks_, -1);
    at_ = floor_ = 0;
    redundant_ = quiet_ = false;
  }

  void on_enabled(const Action& action) override {
    order_.enable(action);
    const auto number = static_cast<std::uint64_t>(action.id);
    if (number < n_ranks_) {
      rank_enablers_[number] = static_cast<std::int64_t>(at_) - 1;
    } else {
      others_[action.id] = {action, static_cast<std::int64_t>(at_) - 1};
    }
  }

  void on_disabled(ActionId id) override {
    order_.disable(id);
    // Taking an action back races with it.
    if (options_.reduce && recording() && at_ > 0) choices_[at_ - 1].want(id);
  }

  ActionId pick() override {
    const ActionId id = choose();
    if (id != order_.next()) schedule_.deviations.push_back(order_.deviation(id));
    order_.take(id);
    ++schedule_.n_picks;
    quiet_ = false;
    if (recording()) touch_own(choices_[at_ - 1], id);
    return id;
  }

  std::string describe() const override { return encode_schedule(schedule_); }

  bool watches() const override { return options_.reduce; }

  void on_touch(std::uint64_t object) override {
    // What is done about a quiet world comes after everything: it races with nothing.
    if (recording() && !quiet_ && at_ > 0) choices_[at_ - 1].touched.add(object);
  }

  void on_quiet() override {
    floor_ = at_;
    quiet_ = true;
  }

  const ExhaustiveCounts& counts() const override { return counts_; }

  const Schedule& schedule() const override { return schedule_; }

 private:
  /// An action that is not a rank's.
  struct Other {
    Action action;
    std::int64_t enabled_by = -1;
  };

  bool recording() const { return !redundant_; }

  std::int64_t enabler_of(ActionId id) {
    const auto number = static_cast<std::uint64_t>(id);
    return number < n_ranks_ ? rank_enablers_[number] : others_[id].enabled_by;
  }

  ActionId choose() {
    if (redundant_) return order_.next();
    if (at_ < n_forced_) {
      Choice& choice = choices_[at_++];
      choice.touched.clear();
      choice.enabled_by = enabler_of(choice.picked);
      choice.floor = floor_;
      return choice.picked;
    }
    Choice& choice = choices_.append();
    ++at_;
    order_.list(choice.enabled);
    if (options_.reduce && floor_ + 1 != at_) choices_.inherit_sleep();
    ActionId id = order_.next();
    if (choice.is_asleep(id)) {
      const auto awake = std::find_if(choice.enabled.begin(),
                                      choice.enabled.end(),
                                      [&](ActionId e) { return !choice.is_asleep(e); });
      if (awake == choice.enabled.end()) {
        choices_.cut(--at_);
        redundant_ = true;
        return id;
      }
      id = *awake;
    }
    choice.picked = id;
    choice.enabled_by = enabler_of(id);
    choice.floor = floor_;
    if (!options_.reduce) {
      for (const ActionId other : choice.enabled) choice.want(other);
    }
    return id;
  }

  // What an action touches by its nature.
  void touch_own(Choice& choice, ActionId id) {
    const auto number = static_cast<std::uint64_t>(id);
    if (number < n_ranks_) {
      choice.touched.add(rank_object(static_cast<Rank>(number)));
      return;
    }
    const Action& action = others_[id].action;
    if (action.kind == ActionKind::kTimer || action.kind == ActionKind::kFault) {
      choice.touched.add(kEverything);
    }
    choice.touched.add(action.footprint);
    choice.touched.add(rank_object(action.rank));
  }

  // To the deepest choice with an alternative that must run. False: there is none.
  bool back_up() {
    while (choices_.size() > 0) {
      Choice& choice = choices_.last();
      choice.done.push_back({choice.picked, choice.touched});
      std::erase_if(choice.wanted,
                    [&](ActionId id) { return choice.is_asleep(id) || choice.was_tried(id); });
      if (!choice.wanted.empty()) {
        choice.picked = *std::min_element(choice.wanted.begin(), choice.wanted.end());
        n_forced_ = choices_.size();
        n_known_ = n_forced_ - 1;
        return true;
      }
      counts_.n_pruned += choice.enabled.size() - choice.done.size();
      choices_.cut(choices_.size() - 1);
    }
    return false;
  }

  ExhaustiveOptions options_;
  ExhaustiveCounts counts_;
  Choices choices_;
  std::size_t n_forced_ = 0;  // Choices given in this run.
  std::size_t n_known_ = 0;   // Those unchanged since their races were looked for.
  bool started_ = false;

  // This run.
  std::uint64_t n_ranks_ = 0;
  std::size_t at_ = 0;     // Choices so far.
  std::size_t floor_ = 0;  // Choices before time passed last.
  bool redundant_ = false;
  bool quiet_ = false;  // Nothing was picked since time passed.
  DefaultOrder order_;
  Schedule schedule_;
  std::vector<std::int64_t> rank_enablers_;
  std::map<ActionId, Other> others_;  // Kept between runs: they come again.
};

}  // namespace

std::unique_ptr<Exhaustive> make_exhaustive(const ExhaustiveOptions& options) {
  return std::make_unique<Search>(options);
}

}  // namespace lockstep::sim
