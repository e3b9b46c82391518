// Writes down what a rank does to memory that it has handed to collectives.
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

/// Records an ExchangeEvent per exchange that entered a loss or was dropped, at the position of the
/// wrapper that the program is at work with.
class ExchangeRecorder final : public ExchangeWatch::Listener {
 public:
  /// Requires: `recorder` outlives it.
  explicit ExchangeRecorder(Recorder& recorder) : recorder_(&recorder) {}

  void on_call(ExchangeWatch::Exchange& exchange) override;
  void on_exchange(const ExchangeWatch::Exchange& exchange) override;

 private:
  Recorder* recorder_;
};

}  // namespace lockstep
