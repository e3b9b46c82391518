#include "lockstep/data/detail/pass_record.h"

namespace lockstep::data {

PassRecord::PassRecord(Recorder& recorder, const std::string& split)
    : recorder_(&recorder), place_(recorder.open_split(split)) {
  const std::string& name = recorder.split(place_);
  split_ = recorder.names().intern(name);
  is_train_ = is_train_split(name);
}

PassRecord::~PassRecord() { recorder_->close_split(place_); }

void PassRecord::begin(EpochEvent event, std::int64_t epoch, bool was_set) {
  epoch_ = was_set || !begun_ ? epoch : epoch_ + 1;
  begun_ = true;
  if (is_train_) recorder_->set_epoch(static_cast<std::int32_t>(epoch_));
  if (!recorder_->options().samples) return;
  event.split = split_;
  recorder_->record(event, recorder_->current_wrapper());
}

void PassRecord::read(std::span<const std::int64_t> ids) {
  if (!recorder_->options().samples || ids.empty()) return;
  ids_.assign(ids.begin(), ids.end());
  for (std::int64_t& id : ids_) id += place_ * kIdsOfSplit;
  recorder_->record(SampleEvent{.split = split_, .ids = ids_}, recorder_->current_wrapper());
}

}  // namespace lockstep::data
