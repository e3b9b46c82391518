#include "lockstep/laws/rules/detail/optimizers/schedule_lengths.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/core.h>
#include <string_view>

namespace lockstep::laws {

namespace {

constexpr std::int64_t kHabit = 2;  // Steps that show whether a schedule moves with each.

/// Traces may hold any number.
std::int64_t steps_in(double value) {
  constexpr double kMost = 1e15;
  return value >= 0.0 && value <= kMost ? static_cast<std::int64_t>(value) : 0;
}

}  // namespace

void ScheduleLengths::on_options(const Event& event,
                                 const OptimizerEvent& options,
                                 RankRange who,
                                 const NameTable& names) {
  if (who.first != 0 || event.at.wrapper < 0) return;
  const std::span<const NameId> layout = names.layout(options.options);
  std::int64_t total = 0;
  std::int64_t made = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const std::string_view name = names.text(layout[i]);
    if (name == kScheduleTotal) total = steps_in(options.values[i]);
    if (name == kScheduleMade) made = steps_in(options.values[i]);
  }
  const auto known = schedules_.find(wrapper_of(event.at));
  if (total == 0 && known == schedules_.end()) return;
  Schedule& schedule = schedules_[wrapper_of(event.at)];
  if (schedule.total == total) advance(schedule, made, event.at.opt);
  schedule.total = total;
  schedule.made = made;
  schedule.before = event.at.opt;
}

/// How far it has moved since the event before. At its end it is not known how far it would have.
void ScheduleLengths::advance(Schedule& schedule, std::int64_t made, std::int64_t before) {
  const std::int64_t n_steps = before - schedule.before;
  if (n_steps < 1 || made >= schedule.total) return;
  const std::int64_t moved = made - schedule.made;
  const std::int64_t stride = moved / n_steps;
  const bool alike = moved % n_steps == 0 && (schedule.stride == 0 || schedule.stride == stride);
  schedule.uneven = schedule.uneven || !alike;
  schedule.stride = stride;
  ++schedule.n_strides;
}

void ScheduleLengths::on_step(const Event& event, const StepEvent& step, RankRange who) {
  if (who.first != 0 || step.skipped) return;
  const auto known = schedules_.find(wrapper_of(event.at));
  if (known != schedules_.end()) known->second.n_steps = event.at.opt + 1;
}

void ScheduleLengths::on_epoch(RankRange who) {
  if (who.first == 0) ++n_passes_;
}

// Each pass over the data may leave a last window that is not whole, and a plan may round them together.
std::vector<Advice> ScheduleLengths::early() const {
  constexpr std::int64_t kSeveral = 2;
  std::vector<Advice> advice;
  for (const auto& [wrapper, schedule] : schedules_) {
    const bool by_step = !schedule.uneven && schedule.n_strides >= kHabit;
    const std::int64_t off = std::abs(schedule.total - schedule.n_steps);
    const bool fits = off <= n_passes_ && schedule.n_steps > kSeveral * n_passes_;
    if (!by_step || schedule.stride < kSeveral || !fits) continue;
    advice.push_back(
        {"A-schedule-ends-early",
         fmt::format("the learning-rate schedule is planned for {} steps but advances {} times per "
                     "optimizer step, so it ends after {} of the {} steps made. Step it once per "
                     "optimizer step, or plan it for {} times as many steps.",
                     schedule.total,
                     schedule.stride,
                     (schedule.total + schedule.stride - 1) / schedule.stride,
                     schedule.n_steps,
                     schedule.stride)});
  }
  return advice;
}

std::vector<Advice> ScheduleLengths::advice(const Wrappers& wrappers, std::int32_t n_ranks) const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, schedule] : schedules_) {
    const std::int64_t n_members = wrappers.n_members(wrapper, n_ranks);
    const std::int64_t n_passes = std::max<std::int64_t>(n_passes_, 1);
    // One that moves once per epoch, or for every rank at each step, counts something else.
    const bool by_step = schedule.made == schedule.before && schedule.made >= kHabit;
    const std::int64_t rounded = n_passes * (n_members - 1);
    const std::int64_t off = std::abs(schedule.total - n_members * schedule.n_steps);
    if (n_members < 2 || !by_step || schedule.n_steps <= n_passes || off > rounded) continue;
    advice.push_back(
        {"A-schedule-too-long",
         fmt::format("the learning-rate schedule is planned for {} steps, as for a single process. "
                     "With {} ranks the run made {} steps, so training stops mid-schedule. Divide "
                     "the planned steps by the number of ranks.",
                     schedule.total,
                     n_members,
                     schedule.n_steps)});
  }
  return advice;
}

}  // namespace lockstep::laws
