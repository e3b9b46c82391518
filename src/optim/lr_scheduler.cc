#include "lockstep/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <stdexcept>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/optim/detail/lr_formulas.h"

namespace lockstep::optim {
namespace {

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

void append_parts(const std::vector<std::unique_ptr<RuleLr>>& parts,
                  std::vector<StateNumber>& numbers) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (StateNumber& number : parts[i]->state()) {
      numbers.push_back({std::to_string(i) + "/" + number.name, number.value});
    }
  }
}

void load_parts(const std::vector<std::unique_ptr<RuleLr>>& parts,
                std::span<const StateNumber> numbers) {
  for (const auto& part : parts) {
    std::vector<StateNumber> own = part->state();
    for (std::size_t i = 0; i < own.size(); ++i) own[i].value = numbers[i].value;
    part->load_state(own);
    numbers = numbers.subspan(own.size());
  }
}

std::string names_of(std::span<const StateNumber> numbers) {
  std::string names;
  for (const StateNumber& number : numbers) {
    if (!names.empty()) names += ", ";
    names += number.name;
  }
  return names.empty() ? "nothing" : names;
}

}  // namespace

void check_state_names(std::span<const StateNumber> wanted, std::span<const StateNumber> given) {
  const bool equal = std::equal(
      wanted.begin(), wanted.end(), given.begin(), given.end(), [](const auto& a, const auto& b) {
        return a.name == b.name;
      });
  if (equal) return;
  throw std::invalid_argument("this state was saved by something else: it has " + names_of(given) +
                              ", where " + names_of(wanted) + " is expected");
}

RuleLr::RuleLr(Optimizer& optimizer, LrRule rule) : optimizer_(&optimizer), rule_(std::move(rule)) {
  detail::check_rule(rule_, optimizer);
  if (const auto* cycle = std::get_if<OneCycleLr>(&rule_)) start_cycle(*cycle);
  for (Group& group : optimizer.groups()) {
    if (!group.initial_lr) group.initial_lr = group.lr;
    base_lrs_.push_back(*group.initial_lr);
  }
  step();
}

std::vector<std::unique_ptr<RuleLr>> RuleLr::parts_of(Optimizer& optimizer,
                                                      std::vector<LrRule> rules) {
  std::vector<std::unique_ptr<RuleLr>> parts;
  parts.reserve(rules.size());
  for (LrRule& rule : rules) {
    parts.push_back(std::make_unique<RuleLr>(optimizer, std::move(rule)));
    parts.back()->alone_ = false;
  }
  for (Group& group : optimizer.groups()) group.schedule = {};
  return parts;
}

/// A one-cycle schedule has its own idea of the initial rate and momentum.
void RuleLr::start_cycle(const OneCycleLr& rule) {
  const std::span<Group> groups = optimizer_->groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].initial_lr = detail::of_group(rule.max_lr, g) / rule.div_factor;
    if (rule.cycle_momentum) groups[g].momentum = detail::of_group(rule.max_momentum, g);
  }
}

void RuleLr::step() {
  const auto* restarts = std::get_if<CosineAnnealingWarmRestarts>(&rule_);
  if (restarts != nullptr && last_epoch_ < 0) {
    restart_at(*restarts, 0.0);
  } else if (restarts != nullptr) {
    t_cur_ += 1.0;
    if (t_cur_ >= t_i_) {
      t_cur_ -= t_i_;
      t_i_ *= static_cast<double>(restarts->t_mult);
    }
  }
  ++last_epoch_;
  apply(false);
}

void RuleLr::step_to(double epoch) {
  if (const auto* restarts = std::get_if<CosineAnnealingWarmRestarts>(&rule_)) {
    if (epoch < 0.0) {
      throw std::invalid_argument("Expected non-negative epoch, but got " + exact(epoch));
    }
    restart_at(*restarts, epoch);
  } else {
    LOCKSTEP_CHECK(
        epoch == std::floor(epoch),
        fmt::format("epoch {} is not whole: only warm restarts accept fractional epochs", epoch));
  }
  last_epoch_ = whole(std::floor(epoch));
  apply(true);
}

void RuleLr::restart_at(const CosineAnnealingWarmRestarts& rule, double epoch) {
  const auto t_0 = static_cast<double>(rule.t_0);
  const auto t_mult = static_cast<double>(rule.t_mult);
  if (epoch < t_0) {
    t_i_ = t_0;
    t_cur_ = epoch;
  } else if (rule.t_mult == 1) {
    t_cur_ = std::fmod(epoch, t_0);
  } else {
    const double n = std::trunc(std::log(epoch / t_0 * (t_mult - 1) + 1) / std::log(t_mult));
    const double power = std::pow(t_mult, n);  // A whole number, exact to 2^53.
    t_cur_ = epoch - t_0 * (power - 1) / (t_mult - 1);
    t_i_ = t_0 * power;
  }
}

void RuleLr::apply(bool closed) {
  const auto* cycle = std::get_if<OneCycleLr>(&rule_);
  const std::span<Group> groups = optimizer_->groups();
  const std::int64_t total = detail::planned_steps(rule_);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const detail::Moment at{.epoch = last_epoch_,
                            .lr = groups[g].lr,
                            .base = base_lrs_[g],
                            .t_cur = t_cur_,
                            .t_i = t_i_,
                            .group = g};
    if (alone_) groups[g].schedule = {total, std::min(last_epoch_, total)};
    groups[g].lr = closed ? detail::closed_rate(rule_, at) : detail::chained_rate(rule_, at);
    if (cycle != nullptr && cycle->cycle_momentum) {
      groups[g].momentum = detail::cycled_momentum(*cycle, at);
    }
  }
}

std::vector<StateNumber> RuleLr::state() const {
  std::vector<StateNumber> numbers = {
      {"last_epoch", static_cast<double>(last_epoch_)}, {"T_cur", t_cur_}, {"T_i", t_i_}};
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    numbers.push_back({"base_lrs." + std::to_string(g), base_lrs_[g]});
  }
  return numbers;
}

void RuleLr::load_state(std::span<const StateNumber> numbers) {
  check_state_names(state(), numbers);
  last_epoch_ = whole(numbers[0].value);
  t_cur_ = numbers[1].value;
  t_i_ = numbers[2].value;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) base_lrs_[g] = numbers[3 + g].value;
}

SequentialLr::SequentialLr(Optimizer& optimizer,
                           std::vector<LrRule> rules,
                           std::vector<std::int64_t> milestones)
    : parts_(RuleLr::parts_of(optimizer, std::move(rules))), milestones_(std::move(milestones)) {
  if (parts_.empty() || milestones_.size() + 1 != parts_.size()) {
    throw std::invalid_argument(
        "Sequential Schedulers expects number of schedulers provided to be one more than the "
        "number of milestone points, but got number of schedulers " +
        std::to_string(parts_.size()) + " and the number of milestones to be equal to " +
        std::to_string(milestones_.size()));
  }
  for (Group& group : optimizer.groups()) group.lr = *group.initial_lr;
  for (const auto& part : parts_) --part->last_epoch_;
  parts_.front()->step();
  note_progress();
}

/// To the end of the last rule.
void SequentialLr::note_progress() {
  const RuleLr& last = *parts_.back();
  const std::int64_t rest = detail::planned_steps(last.rule_);
  const std::int64_t total = rest > 0 && !milestones_.empty() ? milestones_.back() + rest : rest;
  for (Group& group : last.optimizer_->groups()) {
    group.schedule = {total, std::min(last_epoch_, total)};
  }
}

void SequentialLr::step() {
  ++last_epoch_;
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_);
  RuleLr& part = *parts_[static_cast<std::size_t>(next - milestones_.begin())];
  if (next != milestones_.begin() && *std::prev(next) == last_epoch_) {
    part.step_to(0.0);
  } else {
    part.step();
  }
  note_progress();
}

std::vector<StateNumber> SequentialLr::state() const {
  std::vector<StateNumber> numbers = {{"last_epoch", static_cast<double>(last_epoch_)}};
  append_parts(parts_, numbers);
  return numbers;
}

void SequentialLr::load_state(std::span<const StateNumber> numbers) {
  check_state_names(state(), numbers);
  last_epoch_ = whole(numbers[0].value);
  load_parts(parts_, numbers.subspan(1));
}

ChainedLr::ChainedLr(Optimizer& optimizer, std::vector<LrRule> rules)
    : parts_(RuleLr::parts_of(optimizer, std::move(rules))) {
  if (!parts_.empty()) return;
  throw std::invalid_argument(
      "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.");
}

void ChainedLr::step() {
  for (const auto& part : parts_) part->step();
}

std::vector<StateNumber> ChainedLr::state() const {
  std::vector<StateNumber> numbers;
  append_parts(parts_, numbers);
  return numbers;
}

void ChainedLr::load_state(std::span<const StateNumber> numbers) {
  check_state_names(state(), numbers);
  load_parts(parts_, numbers);
}

}  // namespace lockstep::optim
