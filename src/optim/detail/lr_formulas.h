// The arithmetic of each schedule, apart from who keeps which epoch.
#pragma once

#include <cstdint>

#include "lockstep/optim/lr_rules.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim::detail {

/// What a rule may look at.
struct Moment {
  std::int64_t epoch = 0;
  double lr = 0.0;     ///< The group's present rate.
  double base = 0.0;   ///< Its initial one.
  double t_cur = 0.0;  ///< Warm restarts: epochs since the last one,
  double t_i = 0.0;    ///< and from that one to the next.
  std::size_t group = 0;
};

/// The rate of the moment from the rate before, as PyTorch's get_lr() computes it.
double chained_rate(const LrRule& rule, const Moment& at);
/// The rate of the moment from the initial rate, where PyTorch has such a form; else chained_rate.
double closed_rate(const LrRule& rule, const Moment& at);
/// The momentum that goes with the rate, for a one-cycle schedule.
double cycled_momentum(const OneCycleLr& rule, const Moment& at);

/// The number of steps after which a rule has come to its end; 0: it has none.
std::int64_t planned_steps(const LrRule& rule);

/// Throws std::invalid_argument, with PyTorch's text where it has one, for parameters that make no
/// sense for this optimizer.
void check_rule(const LrRule& rule, const Optimizer& optimizer);

/// The value of `group` in a list of one value or one per group.
template <typename T>
const T& of_group(const std::vector<T>& values, std::size_t group) {
  return values[values.size() == 1 ? 0 : group];
}

}  // namespace lockstep::optim::detail
