#include "lockstep/sim/session/detail/rank_side.h"

#include <string>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

void RunPool::move_by(std::size_t bytes) {
  renew();  // A run that threw may have left it moved.
  auto elsewhere = std::make_unique<Pool>();
  elsewhere->shift_addresses(bytes);
  resting_ = std::exchange(pool_, std::move(elsewhere));
}

void RunPool::renew() {
  leave_kept();
  if (resting_ != nullptr) pool_ = std::move(resting_);
  if (pool_ == nullptr) pool_ = std::make_unique<Pool>();
}

void RunPool::leave_kept() {
  if (!kept_.empty()) {
    left_.push_back({std::move(pool_), std::move(kept_)});
    kept_.clear();
  }
  std::erase_if(left_, [](const Left& left) {
    const auto n_runtimes = static_cast<std::int64_t>(left.runtimes.size());
    return left.pool->bytes_in_use() == n_runtimes * Pool::rounded(sizeof(Runtime));
  });
}

// What still has an owner outlives the session, and finds its memory when it goes.
RunPool::~RunPool() {
  leave_kept();
  for (Left& left : left_) {
    for (Placed<Runtime>& runtime : left.runtimes) static_cast<void>(runtime.release());
    static_cast<void>(left.pool.release());
  }
}

std::shared_ptr<NameTable> RunNames::cleared() {
  if (names_.use_count() > 1) {
    names_ = std::make_shared<NameTable>();
  } else {
    names_->clear();
  }
  return names_;
}

KeptRuntime::~KeptRuntime() {
  if (runtime_->n_alive() == 0) return;
  runtime_->stop_watching();
  pool_->keep(std::move(runtime_));
}

void KeptRuntime::expect_all_gone() const {
  const std::int64_t n = runtime_->n_alive();
  LOCKSTEP_CHECK(n == 0,
                 "the program of rank " + std::to_string(to_int(rank_)) + " has ended, but " +
                     std::to_string(n) +
                     " of its tensors or works outlive it: return values, not tensors, modules, "
                     "optimizers or works");
}

MemoryWatch::MemoryWatch(Runtime& runtime, Recorder* recorder, Contents& contents) {
  if (recorder == nullptr || !recorder->options().touches) return;
  parts_ = make_placed<Parts>(runtime.pool(), runtime, *recorder);
  runtime.set_in_flight(&parts_->in_flight);
  runtime.set_contents(&contents);
  if (recorder->options().exchanges) runtime.set_exchanges(&parts_->exchanges);
}

MemoryWatch::Parts::Parts(Runtime& runtime, Recorder& recorder)
    : in_flight(runtime), exchanges(runtime), pen(recorder), exchange_pen(recorder) {
  in_flight.listen(&pen);
  exchanges.listen(&exchange_pen);
}

}  // namespace lockstep::sim
