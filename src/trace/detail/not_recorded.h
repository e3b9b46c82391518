// A stretch of a rank's program that leaves nothing in its trace.
#pragma once

#include "lockstep/tensor/runtime.h"

namespace lockstep {

/// Turns recording off for its lifetime: for work that another event stands for, or that is done
/// again only to be compared.
class NotRecorded {
 public:
  explicit NotRecorded(Runtime& runtime) : runtime_(&runtime), recorder_(runtime.recorder()) {
    runtime.set_recorder(nullptr);
  }

  ~NotRecorded() { runtime_->set_recorder(recorder_); }

  NotRecorded(const NotRecorded&) = delete;
  NotRecorded& operator=(const NotRecorded&) = delete;
  NotRecorded(NotRecorded&&) = delete;
  NotRecorded& operator=(NotRecorded&&) = delete;

  /// The recorder that is off meanwhile, or null.
  Recorder* recorder() const { return recorder_; }

 private:
  Runtime* runtime_;
  Recorder* recorder_;
};

}  // namespace lockstep
