// Event streams written by hand: what a law or a trace reader is fed in tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep::testing {

/// Builds the streams of a few ranks, event by event, and plays them in any interleaving.
class EventStream {
 public:
  explicit EventStream(std::int32_t n_ranks)
      : names_(std::make_shared<NameTable>()),
        trace_(names_),
        at_(static_cast<std::size_t>(n_ranks)) {
    trace_.ensure_ranks(n_ranks);
  }

  std::int32_t n_ranks() const { return trace_.n_ranks(); }

  NameTable& names() { return *names_; }

  const std::shared_ptr<NameTable>& shared_names() const { return names_; }

  const MemoryTrace& trace() const { return trace_; }

  NameId name(std::string_view text) { return names_->intern(text); }

  LayoutId layout(std::initializer_list<std::string_view> texts) {
    std::vector<NameId> list;
    for (const std::string_view text : texts) list.push_back(name(text));
    return names_->intern_layout(list);
  }

  /// A call site whose text lives as long as the stream.
  CallSite site(std::string_view file, std::int32_t line) {
    return {names_->text(name(file)).data(), line, ""};
  }

  /// The position the next events of `rank` get.
  Position& at(std::int32_t rank) { return at_[static_cast<std::size_t>(rank)]; }

  void add(std::int32_t rank, const EventBody& body) {
    Event event{Rank{rank}, trace_.events(Rank{rank}).size(), VirtualTime{}, at(rank), body};
    event.time.ns = static_cast<std::int64_t>(event.index) * 10;
    trace_.on_event(event, *names_);
  }

  void add_all(const EventBody& body) {
    for (std::int32_t rank = 0; rank < n_ranks(); ++rank) add(rank, body);
  }

  /// Feeds everything to `sink`, rank after rank.
  void play(EventSink& sink) const { replay(trace_, sink); }

  /// Each draw picks the rank that delivers its next event; what is left follows rank by rank.
  void play(EventSink& sink, std::span<const std::uint32_t> draws) const {
    std::vector<std::size_t> next(static_cast<std::size_t>(n_ranks()), 0);
    for (const std::uint32_t draw : draws) {
      const std::size_t rank = draw % next.size();
      const std::span<const Event> events = trace_.events(Rank{static_cast<std::int32_t>(rank)});
      if (next[rank] < events.size()) sink.on_event(events[next[rank]++], *names_);
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const std::span<const Event> events = trace_.events(Rank{static_cast<std::int32_t>(rank)});
      for (const Event& event : events.subspan(next[rank])) sink.on_event(event, *names_);
    }
  }

 private:
  std::shared_ptr<NameTable> names_;
  MemoryTrace trace_;
  std::vector<Position> at_;
};

}  // namespace lockstep::testing
