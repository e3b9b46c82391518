// A trace written down event by event: who did what at which nanosecond.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// An all-reduce of the world, of f32 values.
inline CollectiveEvent made_all_reduce(std::int64_t seq, std::int64_t count = 256) {
  CollectiveEvent call{.seq = seq};
  call.signature.op = CollectiveOp::kAllReduce;
  call.signature.count = count;
  return call;
}

class MadeTrace {
 public:
  MadeTrace() : names_(std::make_shared<NameTable>()), trace_(names_) {}

  void add(std::int32_t rank, std::int64_t ns, EventBody body, std::int32_t attempt = 0) {
    Event event;
    event.rank = Rank{rank};
    event.time = VirtualTime{ns};
    event.at.attempt = attempt;
    event.body = body;
    trace_.on_event(event, *names_);
  }

  void forward(std::int32_t rank, std::int64_t ns) { add(rank, ns, ForwardEvent{}); }

  void backward(std::int32_t rank, std::int64_t ns) {
    add(rank, ns, BackwardEvent{.reduced = true});
  }

  void step(std::int32_t rank, std::int64_t ns) { add(rank, ns, StepEvent{}); }

  void call(std::int32_t rank, std::int64_t posted, std::int64_t completed, CollectiveEvent call) {
    call.phase = CollectivePhase::kPosted;
    add(rank, posted, call);
    call.phase = CollectivePhase::kCompleted;
    add(rank, completed, call);
  }

  NameTable& names() { return *names_; }

  const MemoryTrace& trace() const { return trace_; }

 private:
  std::shared_ptr<NameTable> names_;
  MemoryTrace trace_;
};

}  // namespace lockstep
