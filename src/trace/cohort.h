// Ranks in step: what all of them did at the same place of their streams is delivered once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/trace/detail/body_kind.h"
#include "lockstep/trace/detail/cohort/grad_rows.h"
#include "lockstep/trace/detail/cohort/shared_digests.h"
#include "lockstep/trace/detail/last_digests.h"
#include "lockstep/trace/event.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/trace/similarity.h"

namespace lockstep {

class TraceDigest;

namespace detail {
class CohortSlot;
struct ArrivalReader;
}  // namespace detail

/// The events that the ranks [0, n_ranks) recorded at one place: of one kind, at one position.
struct CohortEvent {
  /// When one rank arrived, and the place in its stream.
  struct Arrival {
    VirtualTime time;
    std::uint64_t index = 0;
  };

  /// The least one of any rank to the first to arrive.
  Similarity similarity = Similarity::kEqual;
  const Event* first = nullptr;            ///< Of the rank that arrived first.
  std::span<const Arrival> arrivals = {};  ///< By rank.
  /// Of gradients whose lists have the shape of the first's, without being equal; else null.
  const detail::GradRows* rows = nullptr;
  std::span<const EventBody> own = {};  ///< By rank; empty where all are equal or have rows.

  std::int32_t n_ranks() const { return static_cast<std::int32_t>(arrivals.size()); }

  bool equal() const { return similarity == Similarity::kEqual; }

  /// Its spans are valid during the call that delivers the event.
  EventBody body_of(std::int32_t rank) const {
    const auto place = static_cast<std::size_t>(rank);
    if (rows != nullptr) return rows->of(place, *std::get_if<GradEvent>(&first->body));
    return equal() ? first->body : own[place];
  }

  /// As `rank` recorded it.
  Event of(std::int32_t rank) const {
    const Arrival& arrival = arrivals[static_cast<std::size_t>(rank)];
    return {Rank{rank}, arrival.index, arrival.time, first->at, body_of(rank)};
  }
};

/// Reads ranks one by one and, where they are in step, all at once. What on_cohort() says stands
/// for one on_event() of each rank, in any order.
class CohortSink : public EventSink {
 public:
  virtual void on_cohort(const CohortEvent& event, const NameTable& names) = 0;
  /// The kinds of events it looks at.
  virtual EventKinds reads() const = 0;
};

/// Between the recorders of a world and a reader.
///
/// Each event waits until every rank has recorded its own at the same place; then all of them
/// are delivered at once. What some ranks alone record in between is delivered rank by rank. Where
/// ranks have fallen out of step (too many events wait for one of them), everything that waits is
/// delivered so, and what follows too, until all of them begin one and the same synchronising
/// forward. Each rank's own order is kept in any case; the order between ranks is not.
///
/// What an event adds to a trace's digest is added as it comes.
///
/// Requires: begin() before the first event, flush() after the last one.
/// Memory: kMaxWaiting events.
class Cohort final : public EventSink {
 public:
  static constexpr std::size_t kMaxWaiting = std::size_t{1} << 16U;

  Cohort();
  ~Cohort() override;
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;
  Cohort(Cohort&&) = delete;
  Cohort& operator=(Cohort&&) = delete;

  /// Before the first event of a world, and again for the next one, which finds warm memory.
  /// `n_ranks` < 2, or unknown: every event is delivered by itself. `digest`: null for none.
  void begin(std::int32_t n_ranks, CohortSink& sink, TraceDigest* digest);
  void on_event(const Event& event, const NameTable& names) override;
  /// As on_event(), if the rank is in step with another one that has recorded such a body at this
  /// place: no event is made of it. False: nothing was done.
  bool joins(const EventStamp& stamp, detail::BodyRef body, const NameTable& names);
  /// What the last reduction of a wrapper of this number left, on whichever rank: as a rule on all of
  /// them.
  /// Requires: 0 or more.
  detail::GradPrints& reduced_prints(std::int32_t wrapper);
  /// What the tensors of this list held when they were last read, on whichever rank; null where ranks are
  /// never in step.
  detail::SharedDigests* shared_digests(LayoutId layout);
  /// Delivers what waits for ranks that will not come.
  void flush(const NameTable& names);

 private:
  using Slot = detail::CohortSlot;

  /// One rank. `next` is the slot that its next event is expected at.
  struct Member {
    std::int64_t next = 0;
    bool in_step = true;
  };

  /// On whichever rank.
  struct WhatWasRead {
    std::vector<detail::GradPrints> reduced;    ///< By wrapper.
    std::vector<detail::SharedDigests> states;  ///< By LayoutId.
  };

  /// Where ranks that are out of step step in again.
  struct Rejoining {
    std::int32_t last_sync = -1;  ///< The latest of any rank, in the first wrapper.
    std::int32_t at = 0;
    std::int32_t backoff = 1;  ///< Forwards until they may: doubled each time.
  };

  // A rank alone may log, save or report something: others pass it by, or it is set aside.
  static constexpr std::int64_t kMaxPassed = 8;
  static constexpr std::size_t kMaxAsides = 256;

  bool waits(const Event& event) const;
  bool rejoins(Member& member, const Event& event) const;
  void alone(const Event& event, const NameTable& names);
  void open(const Event& event, detail::ArrivalReader reader);
  bool passes_on(Member& member, const Event& event, detail::ArrivalReader reader);
  void grow();
  void deliver_waiting(const NameTable& names);
  void close_complete(const NameTable& names);
  void deliver_alone(const Slot& slot, std::size_t rank, const NameTable& names);
  void lose_step(const NameTable& names);

  std::size_t place_of(std::int64_t number) const {
    return static_cast<std::size_t>(number) & (slots_.size() - 1);
  }

  Slot& slot(std::int64_t number) { return *slots_[place_of(number)]; }

  CohortSink* sink_ = nullptr;
  TraceDigest* digest_ = nullptr;
  EventKinds reads_ = 0;
  std::vector<Member> members_;  // By rank; empty: ranks are never in step.
  // Slots [begin_, end_) wait; each lies at its number modulo the size, which is a power of two.
  std::vector<std::unique_ptr<Slot>> slots_;
  std::size_t n_slot_ranks_ = 0;  // That the slots have room for.
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  WhatWasRead read_;
  std::size_t n_waiting_ = 0;  // Events.
  Rejoining rejoining_;
};

}  // namespace lockstep
