// A whole run's events in memory, deep-copied, one list per rank.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/memory/memory_left.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// What a run recorded. Event spans point into the trace's own memory.
///
/// Errors: on_event() throws std::bad_alloc while some memory is still left (GrowthGuard): a run that
///     records without end ends with a report, not by the kernel.
class MemoryTrace final : public EventSink {
 public:
  explicit MemoryTrace(std::shared_ptr<NameTable> names,
                       GrowthGuard::MemoryLeft left = &memory_left);
  ~MemoryTrace() override;
  MemoryTrace(MemoryTrace&&) noexcept;
  MemoryTrace& operator=(MemoryTrace&&) noexcept;
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  void on_event(const Event& event, const NameTable& names) override;

  std::int32_t n_ranks() const { return static_cast<std::int32_t>(ranks_.size()); }

  /// Makes room for ranks that record nothing too.
  void ensure_ranks(std::int32_t n);

  /// In the rank's own order; empty for a rank that recorded nothing.
  std::span<const Event> events(Rank rank) const {
    if (to_int(rank) >= n_ranks()) return {};
    return ranks_[to_index(rank)];
  }

  /// The rank of each event, in the order in which they were recorded: one order of all ranks, in
  /// a simulated run that of its schedule.
  std::span<const Rank> order() const { return order_; }

  const NameTable& names() const { return *names_; }

  const std::shared_ptr<NameTable>& shared_names() const { return names_; }

 private:
  struct Arena;

  template <typename T>
  void make_room(std::vector<T>& list);

  std::shared_ptr<NameTable> names_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::vector<Event>> ranks_;
  std::vector<Rank> order_;
};

/// Feeds one event to several sinks, in order.
class SinkChain final : public EventSink {
 public:
  void add(EventSink& sink) { sinks_.push_back(&sink); }

  void on_event(const Event& event, const NameTable& names) override {
    for (EventSink* sink : sinks_) sink->on_event(event, names);
  }

 private:
  std::vector<EventSink*> sinks_;
};

/// Delivers a stored trace to a sink: each rank in its own order, the ranks alternating every few
/// events, so that readers which align ranks need little memory.
void replay(const MemoryTrace& trace, EventSink& sink);

}  // namespace lockstep
