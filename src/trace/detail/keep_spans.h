// Copies what the spans of an event point to, for readers that keep events beyond their delivery.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>

#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// Points every span of `body` to a copy in memory from `memory.allocate(n_bytes)`, which is
/// aligned for anything. Spans of other bodies are not looked at: they have none.
template <typename Memory>
class SpanKeeper {
 public:
  explicit SpanKeeper(Memory& memory) : memory_(&memory) {}

  void keep(EventBody& body) { std::visit(*this, body); }

  void operator()(GradEvent& event) {
    copy(event.digests);
    copy(event.sketches);
    copy(event.n_elems);
    copy(event.undefined);
  }

  void operator()(StateEvent& event) { copy(event.digests); }

  void operator()(BucketEvent& event) {
    copy(event.indices);
    copy(event.lengths);
  }

  void operator()(SampleEvent& event) { copy(event.ids); }

  void operator()(GroupEvent& event) { copy(event.members); }

  void operator()(ValueEvent& event) { copy(event.values); }

  void operator()(MetricEvent& event) { copy(event.parts); }

  void operator()(OptimizerEvent& event) { copy(event.values); }

  void operator()(InputEvent& event) { copy(event.rows); }

  void operator()(LoneEvent& event) {
    copy(event.digests);
    copy(event.sketches);
    copy(event.n_elems);
  }

  template <typename Body>
  void operator()(Body& /*event*/) {}

 private:
  template <typename T>
  void copy(std::span<const T>& span) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (span.empty()) {
      span = {};
      return;
    }
    void* const kept = memory_->allocate(span.size_bytes());
    std::memcpy(kept, span.data(), span.size_bytes());
    span = {static_cast<const T*>(kept), span.size()};
  }

  Memory* memory_;
};

}  // namespace lockstep::detail
