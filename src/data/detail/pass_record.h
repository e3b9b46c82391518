// Passes over data in a rank's trace: the epoch that begins, the samples that are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/trace/recorder.h"

namespace lockstep::data {

/// One split as one rank reads it, pass after pass.
///
/// Ids are those of the split's own data set, which need not be the ids of another split: all
/// splits but the rank's first one are recorded in a range of ids of their own.
class PassRecord {
 public:
  /// Samples of the n-th split of a rank have ids from n times this on.
  static constexpr std::int64_t kIdsOfSplit = std::int64_t{1} << 40U;

  /// `split`: "train", "val", ...; a second one of this name is "train/2" while the first lives.
  /// Requires: the recorder outlives this.
  PassRecord(Recorder& recorder, const std::string& split);
  ~PassRecord();
  PassRecord(const PassRecord&) = delete;
  PassRecord& operator=(const PassRecord&) = delete;
  PassRecord(PassRecord&&) = delete;
  PassRecord& operator=(PassRecord&&) = delete;

  /// A pass begins. A training pass is one epoch further than the pass before it, or the epoch that
  /// was set meanwhile: a sampler without set_epoch() repeats its order all the same.
  void begin(EpochEvent event, std::int64_t epoch, bool was_set);
  void read(std::span<const std::int64_t> ids);

  Recorder& recorder() const { return *recorder_; }

 private:
  Recorder* recorder_;
  std::int32_t place_;  // Among the rank's splits.
  NameId split_;
  bool is_train_;
  bool begun_ = false;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> ids_;  // Scratch.
};

}  // namespace lockstep::data
