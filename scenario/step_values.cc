#include "lockstep/scenario/step_values.h"

#include <algorithm>

namespace lockstep {
namespace {

/// Folds one rank's events into steps: a StepEvent closes the open one.
class StepFolder {
 public:
  explicit StepFolder(const NameTable& names) : names_(names) {}

  void on(const ValueEvent& event) {
    const std::string_view tensor = names_.text(event.tensor);
    const std::string_view point = names_.text(event.point);
    if (tensor.find('/') != std::string_view::npos) return;  // The optimizer's state.
    TensorValues* target = nullptr;
    if (point == "grad.used") target = &open_.used;
    if (point == "wrap" || point == "forward") target = &parameters_;
    if (point == "step") target = &open_.after;
    if (target == nullptr) return;
    (*target)[std::string(tensor)].assign(event.values.begin(), event.values.end());
  }

  void on(const BatchEvent& event) {
    if (open_.micros.empty()) open_.before = parameters_;
    open_.micros.push_back({.ids = {},
                            .denominator = event.denominator,
                            .n_samples = event.n_samples,
                            .n_tokens = event.n_tokens});
  }

  void on(const SampleEvent& event) {
    if (names_.text(event.split) != "train" || open_.micros.empty()) return;
    open_.micros.back().ids.assign(event.ids.begin(), event.ids.end());
  }

  void on(const StepEvent& /*event*/) {
    for (const auto& [name, values] : open_.after) parameters_[name] = values;
    steps_.push_back(std::move(open_));
    open_ = {};
  }

  std::vector<RankStep> take() { return std::move(steps_); }

 private:
  const NameTable& names_;
  TensorValues parameters_;
  RankStep open_;
  std::vector<RankStep> steps_;
};

}  // namespace

std::vector<RankStep> steps_of(const MemoryTrace& trace, Rank rank) {
  StepFolder folder(trace.names());
  for (const Event& event : trace.events(rank)) {
    if (const auto* value = std::get_if<ValueEvent>(&event.body)) folder.on(*value);
    if (const auto* batch = std::get_if<BatchEvent>(&event.body)) folder.on(*batch);
    if (const auto* sample = std::get_if<SampleEvent>(&event.body)) folder.on(*sample);
    if (const auto* step = std::get_if<StepEvent>(&event.body)) folder.on(*step);
  }
  return folder.take();
}

}  // namespace lockstep
