#include "lockstep/optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "lockstep/optim/detail/lr_formulas.h"

namespace lockstep::optim {

ReduceLrOnPlateau::ReduceLrOnPlateau(Optimizer& optimizer, PlateauOptions options)
    : optimizer_(&optimizer), options_(std::move(options)) {
  if (options_.factor >= 1.0) throw std::invalid_argument("Factor should be < 1.0.");
  const std::size_t n_groups = optimizer.groups().size();
  if (options_.min_lr.size() != 1 && options_.min_lr.size() != n_groups) {
    throw std::invalid_argument("expected " + std::to_string(n_groups) + " min_lrs, got " +
                                std::to_string(options_.min_lr.size()));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.maximize ? -infinity : infinity;
}

bool ReduceLrOnPlateau::is_better(double metric) const {
  const double threshold = options_.threshold;
  if (options_.maximize) {
    return metric > (options_.absolute ? best_ + threshold : best_ * (threshold + 1.0));
  }
  return metric < (options_.absolute ? best_ - threshold : best_ * (1.0 - threshold));
}

void ReduceLrOnPlateau::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    n_bad_ = 0;
  } else {
    ++n_bad_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    n_bad_ = 0;
  }
  if (n_bad_ > options_.patience) {
    reduce();
    cooldown_left_ = options_.cooldown;
    n_bad_ = 0;
  }
}

void ReduceLrOnPlateau::reduce() {
  const std::span<Group> groups = optimizer_->groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double before = groups[g].lr;
    const double after = std::max(before * options_.factor, detail::of_group(options_.min_lr, g));
    if (before - after > options_.eps) groups[g].lr = after;
  }
}

std::vector<StateNumber> ReduceLrOnPlateau::state() const {
  return {{"best", best_},
          {"num_bad_epochs", static_cast<double>(n_bad_)},
          {"cooldown_counter", static_cast<double>(cooldown_left_)},
          {"last_epoch", static_cast<double>(last_epoch_)}};
}

void ReduceLrOnPlateau::load_state(std::span<const StateNumber> numbers) {
  check_state_names(state(), numbers);
  best_ = numbers[0].value;
  n_bad_ = static_cast<std::int64_t>(numbers[1].value);
  cooldown_left_ = static_cast<std::int64_t>(numbers[2].value);
  last_epoch_ = static_cast<std::int64_t>(numbers[3].value);
}

}  // namespace lockstep::optim
