// Writes down what a rank does to memory that its pending transfers own.
#pragma once

#include "lockstep/tensor/in_flight.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Records a TouchEvent per access, at the position of the wrapper whose transfer it violates.
class TouchRecorder final : public InFlight::Listener {
 public:
  /// Requires: `recorder` outlives it.
  explicit TouchRecorder(Recorder& recorder) : recorder_(&recorder) {}

  void on_touch(const InFlight::Loan& loan, const InFlight::Access& access) override;

 private:
  Recorder* recorder_;
};

}  // namespace lockstep
