#include "lockstep/trace/touch_recorder.h"

#include <string>

namespace lockstep {

namespace {

TouchManner manner_of(InFlight::Manner manner) {
  switch (manner) {
    case InFlight::Manner::kValue:
      return TouchManner::kValue;
    case InFlight::Manner::kAbandoned:
      return TouchManner::kAbandoned;
    case InFlight::Manner::kNone:
      break;
  }
  return TouchManner::kNone;
}

ExchangeJoin join_of(ExchangeWatch::Join join) {
  switch (join) {
    case ExchangeWatch::Join::kInPlace:
      return ExchangeJoin::kInPlace;
    case ExchangeWatch::Join::kFunction:
      return ExchangeJoin::kFunction;
    case ExchangeWatch::Join::kConstant:
      break;
  }
  return ExchangeJoin::kConstant;
}

NameId place_of(const CallSite& site, NameTable& names) {
  if (!site.known()) return kNoName;
  return names.intern(site.file + (":" + std::to_string(site.line)));
}

}  // namespace

void TouchRecorder::on_touch(const InFlight::Loan& loan, const InFlight::Access& access) {
  NameTable& names = recorder_->names();
  recorder_->record(TouchEvent{.written = access.writes,
                               .operation = names.intern(access.operation),
                               .site = access.site,
                               .group = loan.group,
                               .seq = loan.seq,
                               .call = loan.call,
                               .receives = loan.written,
                               .posted_at = place_of(loan.site, names),
                               .manner = manner_of(access.manner)},
                    loan.wrapper);
}

void ExchangeRecorder::on_call(ExchangeWatch::Exchange& exchange) {
  exchange.step = recorder_->position(recorder_->current_wrapper()).opt;
}

void ExchangeRecorder::on_exchange(const ExchangeWatch::Exchange& exchange) {
  NameTable& names = recorder_->names();
  recorder_->record(ExchangeEvent{.call = exchange.call,
                                  .reduce = exchange.reduce,
                                  .group = exchange.group,
                                  .seq = exchange.seq,
                                  .n_ranks = exchange.n_ranks,
                                  .step = exchange.step,
                                  .called_at = place_of(exchange.site, names),
                                  .join = join_of(exchange.join),
                                  .grad = exchange.grad,
                                  .dropped = exchange.dropped,
                                  .answered = exchange.answered,
                                  .scaled = exchange.scaled,
                                  .digest = exchange.arrived},
                    recorder_->current_wrapper());
}

}  // namespace lockstep
