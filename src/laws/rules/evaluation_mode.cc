#include "lockstep/laws/rules/detail/evaluation_mode.h"

#include <fmt/core.h>

namespace lockstep::laws {

namespace {

constexpr std::int32_t kHabit = 2;  // Steps: one may be a validation that keeps its graph.

}  // namespace

void EvaluationMode::on_forward(const Forward& forward, std::int32_t rank) {
  if (!forward.event.through_wrapper || !forward.event.grad) return;
  Training& known = trainings_[wrapper_of(forward.at)];
  if (known.rank >= 0 && rank > known.rank) return;
  if (rank != known.rank) known = {.rank = rank};
  known.last = forward.at.opt;
  if (forward.event.training) {
    known.trained = true;
    known.since = kNever;
  } else if (known.trained && known.since == kNever) {
    known.since = forward.at.opt;
  }
}

std::vector<Advice> EvaluationMode::advice() const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, training] : trainings_) {
    if (training.since == kNever || training.last - training.since < kHabit) continue;
    advice.push_back(
        {"A-stays-in-evaluation",
         fmt::format(
             "the model is trained in eval mode from step {} to the last step, after training in "
             "train mode. With dropout or batch norm, call model.train() after each evaluation.",
             training.since)});
  }
  return advice;
}

}  // namespace lockstep::laws
