#include "lockstep/sim/session/detail/rank_side.h"

#include <exception>
#include <string>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/kernels/exact_observer.h"

namespace lockstep::sim {

namespace {

// Where the rank was in its training, for errors that happen far from any event.
std::string place_of(Recorder* recorder) {
  if (recorder == nullptr || recorder->n_wrappers() == 0) return {};
  return "step " + std::to_string(recorder->position(0).opt) + ": ";
}

}  // namespace

EndOfRank::~EndOfRank() {
  if (recorder_ == nullptr) return;
  NameTable& names = recorder_->names();
  const EndOutcome unnoted = *stuck_ ? EndOutcome::kStuck : EndOutcome::kException;
  recorder_->record(EndEvent{.outcome = outcome_ == EndOutcome::kNone ? unnoted : outcome_,
                             .detail = names.intern(detail_),
                             .reason = why_});
}

void run_body(const std::function<void(RankContext&)>& body,
              RankContext& context,
              EndOfRank& end,
              std::uint8_t& comm_error) {
  try {
    body(context);
    end.note(EndOutcome::kOk, "");
  } catch (const RankKilled& killed) {
    end.note(end.stuck() ? EndOutcome::kStuck : EndOutcome::kKilled, killed.reason(), killed.why());
    throw;
  } catch (const CommError& error) {
    comm_error = 1;
    end.note(EndOutcome::kException, error.what());
    throw;
  } catch (const InexactOperation& inexact) {
    const std::string text = place_of(context.runtime().recorder()) + inexact.what();
    end.note(EndOutcome::kException, text);
    throw InexactOperation(text);
  } catch (const std::exception& error) {
    end.note(EndOutcome::kException, error.what());
    throw;
  }
}

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

MemoryWatch::MemoryWatch(Runtime& runtime, Recorder* recorder, Contents& contents) {
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
