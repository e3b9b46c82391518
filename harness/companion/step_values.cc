#include "lockstep/harness/companion/step_values.h"

#include <algorithm>

namespace lockstep {
namespace {

/// Folds one rank's events into steps: a StepEvent closes the open one.
class StepFolder {
 public:
  explicit StepFolder(const NameTable& names) : names_(names) {}

  void on(const ValueEvent& event) {
    const std::string_view tensor = names_.text(event.tensor);
    if (tensor.find('/') != std::string_view::npos) return;  // The optimizer's state.
    TensorValues* target = nullptr;
    if (event.point == ValuePoint::kGradUsed) target = &open_.used;
    const bool before = event.point == ValuePoint::kWrap || event.point == ValuePoint::kForward;
    if (before) target = &parameters_;
    if (event.point == ValuePoint::kStep) target = &open_.after;
    if (target == nullptr) return;
    (*target)[std::string(tensor)] = event.values;
  }

  void on(const StateEvent& event) {
    if (event.kind != StateKind::kParam) return;
    put(parameter_digests_, event.layout, event.digests);
    if (event.point == StatePoint::kStep) put(open_.after_digests, event.layout, event.digests);
  }

  void on(const GradEvent& event) {
    if (event.point == GradPoint::kUsed) put(open_.used_digests, event.layout, event.digests);
    if (event.point == GradPoint::kPre) put(open_.local_digests, event.layout, event.digests);
  }

  void on(const BatchEvent& event) {
    if (open_.micros.empty()) {
      open_.before = parameters_;
      open_.before_digests = parameter_digests_;
    }
    open_.micros.push_back({.ids = {},
                            .denominator = event.denominator,
                            .n_samples = event.n_samples,
                            .n_tokens = event.n_tokens});
  }

  void on(const SampleEvent& event) {
    if (!is_train_split(names_.text(event.split)) || open_.micros.empty()) return;
    open_.micros.back().ids.assign(event.ids.begin(), event.ids.end());
  }

  void on(const StepEvent& event, std::int32_t epoch) {
    open_.epoch = epoch;
    open_.skipped = event.skipped;
    open_.scale = event.scale;
    for (const auto& [name, values] : open_.after) parameters_[name] = values;
    steps_.push_back(std::move(open_));
    open_ = {};
  }

  std::vector<RankStep> take() { return std::move(steps_); }

 private:
  static void put(std::vector<DigestList>& lists,
                  LayoutId layout,
                  std::span<const std::uint64_t> digests) {
    for (DigestList& list : lists) {
      if (list.layout != layout) continue;
      list.digests = digests;
      return;
    }
    lists.push_back({layout, digests});
  }

  const NameTable& names_;
  TensorValues parameters_;
  std::vector<DigestList> parameter_digests_;
  RankStep open_;
  std::vector<RankStep> steps_;
};

}  // namespace

std::vector<RankStep> steps_of(const MemoryTrace& trace, Rank rank) {
  StepFolder folder(trace.names());
  for (const Event& event : trace.events(rank)) {
    if (const auto* value = std::get_if<ValueEvent>(&event.body)) folder.on(*value);
    if (const auto* state = std::get_if<StateEvent>(&event.body)) folder.on(*state);
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) folder.on(*grad);
    if (const auto* batch = std::get_if<BatchEvent>(&event.body)) folder.on(*batch);
    if (const auto* sample = std::get_if<SampleEvent>(&event.body)) folder.on(*sample);
    if (const auto* step = std::get_if<StepEvent>(&event.body)) folder.on(*step, event.at.epoch);
  }
  return folder.take();
}

}  // namespace lockstep
