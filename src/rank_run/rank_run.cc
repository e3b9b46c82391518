#include "lockstep/rank_run/rank_run.h"

#include <exception>
#include <utility>

#include "lockstep/comm/comm_status.h"
#include "lockstep/comm/environment_record.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/tensor/runtime.h"

namespace lockstep {

namespace {

// Where the rank was in its training, for errors that happen far from any event.
std::string place_of(Recorder* recorder) {
  if (recorder == nullptr || recorder->n_wrappers() == 0) return {};
  return "step " + std::to_string(recorder->position(0).opt) + ": ";
}

}  // namespace

RecordOptions record_options(const RecordOptions& required, const Keeping& keeping, Rank rank) {
  RecordOptions record = required;
  if (keeping.trace) {
    record.grad_local = record.grad_post = record.grad_used = true;
    record.states = record.collectives = record.samples = true;
  }
  record.values = keeping.values;
  record.step_values = keeping.step_value_bytes > 0 && rank == Rank{0};
  record.step_value_bytes = keeping.step_value_bytes;
  record.coverage = keeping.coverage;
  return record;
}

RankRun::~RankRun() {
  if (recorder_ == nullptr) return;
  const EndOutcome outcome =
      outcome_ == EndOutcome::kNone ? outcome_or(EndOutcome::kException) : outcome_;
  recorder_->record(EndEvent{
      .outcome = outcome, .detail = recorder_->names().intern(detail_), .reason = reason_});
}

EndOutcome RankRun::outcome_or(EndOutcome otherwise) const {
  return is_stuck() ? EndOutcome::kStuck : otherwise;
}

void RankRun::note(EndOutcome outcome, std::string detail, EndReason reason) {
  outcome_ = outcome;
  detail_ = std::move(detail);
  reason_ = reason;
}

void RankRun::play(const std::function<void(RankContext&)>& body, RankContext& context) {
  record_environment(context);
  try {
    body(context);
    note(EndOutcome::kOk, "");
  } catch (const RankKilled& killed) {
    note(outcome_or(EndOutcome::kKilled), killed.reason(), killed.why());
    throw;
  } catch (const CommError& error) {
    *failure_ = FailureOrigin::kOfGroup;
    note(EndOutcome::kException, error.what());
    throw;
  } catch (const InexactOperation& inexact) {
    *failure_ = FailureOrigin::kOwn;
    const std::string text = place_of(recorder_) + inexact.what();
    note(EndOutcome::kException, text);
    throw InexactOperation(text);
  } catch (const std::exception& error) {
    *failure_ = FailureOrigin::kOwn;
    note(EndOutcome::kException, error.what());
    throw;
  } catch (...) {  // The rank boundary: property-test libraries throw their own types.
    *failure_ = FailureOrigin::kOwn;
    note(outcome_or(EndOutcome::kException), "an exception that is not a std::exception");
    throw;
  }
}

}  // namespace lockstep
