// Two numbers for a whole run: one that sees everything, one that sees only results.
#pragma once

#include <map>

#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Folds events as they come.
///
/// trace():  kinds, positions, times, call sites, digests, and the order in which events of different
///           ranks interleaved: equal iff two runs did the same things in the same order.
/// result(): per rank, without times, call sites, completion order or collective phases: equal for all
///           legal schedules of a correct job.
///
/// Deterministic: names enter by text, never by id.
class TraceDigest final : public EventSink {
 public:
  void on_event(const Event& event, const NameTable& names) override;
  std::uint64_t trace() const { return trace_; }
  std::uint64_t result() const;
  std::int64_t n_events() const { return n_events_; }

 private:
  std::uint64_t trace_ = 0;
  std::int64_t n_events_ = 0;
  std::vector<std::uint64_t> by_rank_;
  std::vector<std::uint64_t> name_hashes_;  // By NameId: a text is hashed once.
};

}  // namespace lockstep
