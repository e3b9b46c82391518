#include "lockstep/sim/session/detail/rank_side.h"

#include <string>

#include "lockstep/base/check.h"

namespace lockstep::sim {

void RunPool::renew_if_kept() {
  if (!kept_) return;
  static_cast<void>(pool_.release());
  pool_ = std::make_unique<Pool>();
  kept_ = false;
}

KeptRuntime::~KeptRuntime() {
  if (runtime_->n_alive() == 0) return;
  pool_->note_kept();
  runtime_->stop_watching();
  static_cast<void>(runtime_.release());
}

void KeptRuntime::expect_all_gone() const {
  const std::int64_t n = runtime_->n_alive();
  LOCKSTEP_CHECK(n == 0,
                 "the program of rank " + std::to_string(to_int(rank_)) + " has ended, but " +
                     std::to_string(n) +
                     " of its tensors or works are still held by others: keep values, and let "
                     "tensors, modules and optimizers end with the program");
}

MemoryWatch::MemoryWatch(Runtime& runtime, Recorder* recorder, Contents& contents)
    : in_flight_(runtime), exchanges_(runtime) {
  if (recorder == nullptr || !recorder->options().touches) return;
  pen_.emplace(*recorder);
  in_flight_.listen(&*pen_);
  runtime.set_in_flight(&in_flight_);
  runtime.set_contents(&contents);
  if (!recorder->options().exchanges) return;
  exchange_pen_.emplace(*recorder);
  exchanges_.listen(&*exchange_pen_);
  runtime.set_exchanges(&exchanges_);
}

}  // namespace lockstep::sim
