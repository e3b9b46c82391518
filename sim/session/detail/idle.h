// A session that runs is busy.
#pragma once

namespace lockstep::sim::detail {

/// Lets others run again, however this run ends.
class Idle {
 public:
  explicit Idle(bool& busy) : busy_(&busy) {}

  ~Idle() { __atomic_store_n(busy_, false, __ATOMIC_RELEASE); }

  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;
  Idle(Idle&&) = delete;
  Idle& operator=(Idle&&) = delete;

 private:
  bool* busy_;
};

}  // namespace lockstep::sim::detail
