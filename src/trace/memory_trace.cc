#include "lockstep/trace/memory_trace.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>

#include "lockstep/base/check.h"
#include "lockstep/memory/system_block.h"
#include "lockstep/trace/detail/keep_spans.h"

namespace lockstep {

/// Bump-allocated chunks that live as long as the trace: copying an event's spans is a memcpy.
struct MemoryTrace::Arena {
  static constexpr std::size_t kFirstChunkBytes = std::size_t{64} << 10U;

  explicit Arena(GrowthGuard::MemoryLeft left) : guard(left) {}

  void* allocate(std::size_t n_bytes) {
    const std::size_t rounded = (n_bytes + 15) / 16 * 16;
    if (rounded > left_) {
      const bool first = chunks_.empty() && rounded <= kFirstChunkBytes;
      const std::size_t size =
          first ? kFirstChunkBytes : (rounded + kHugePage - 1) / kHugePage * kHugePage;
      guard.add(size);
      chunks_.push_back(make_system_block(size));
      next_ = chunks_.back().get();
      left_ = size;
    }
    void* block = next_;
    next_ += rounded;
    left_ -= rounded;
    return block;
  }

  GrowthGuard guard;  ///< Of all that the trace holds.

 private:
  std::vector<SystemBlock> chunks_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

MemoryTrace::MemoryTrace(std::shared_ptr<NameTable> names, GrowthGuard::MemoryLeft left)
    : names_(std::move(names)), arena_(std::make_unique<Arena>(left)) {}

MemoryTrace::~MemoryTrace() = default;

MemoryTrace::MemoryTrace(MemoryTrace&&) noexcept = default;

MemoryTrace& MemoryTrace::operator=(MemoryTrace&&) noexcept = default;

void MemoryTrace::ensure_ranks(std::int32_t n) {
  if (n > n_ranks()) ranks_.resize(static_cast<std::size_t>(n));
}

// Doubles short lists; a long one would take three times its size while it moves.
template <typename T>
void MemoryTrace::make_room(std::vector<T>& list) {
  constexpr std::size_t kLongBytes = std::size_t{64} << 20U;
  const std::size_t n = list.size();
  const std::size_t room = n * sizeof(T) < kLongBytes ? std::max<std::size_t>(1, 2 * n) : n + n / 4;
  arena_->guard.add(room * sizeof(T));
  list.reserve(room);
  arena_->guard.release(n * sizeof(T));
}

void MemoryTrace::on_event(const Event& event, const NameTable& names) {
  LOCKSTEP_CHECK(&names == names_.get(), "a trace keeps ids of its own name table only");
  LOCKSTEP_CHECK(to_int(event.rank) >= 0,
                 fmt::format("an event of rank {}: a rank is never negative", to_int(event.rank)));
  ensure_ranks(to_int(event.rank) + 1);
  std::vector<Event>& events = ranks_[to_index(event.rank)];
  if (events.size() == events.capacity()) make_room(events);
  if (order_.size() == order_.capacity()) make_room(order_);
  events.push_back(event);
  try {
    detail::SpanKeeper(*arena_).keep(events.back().body);
  } catch (const std::bad_alloc&) {  // Its spans still point to memory of others.
    events.pop_back();
    throw;
  }
  order_.push_back(event.rank);
}

void replay(const MemoryTrace& trace, EventSink& sink) {
  constexpr std::size_t kTurn = 64;
  bool more = trace.n_ranks() > 0;
  for (std::size_t first = 0; more; first += kTurn) {
    more = false;
    for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
      const std::span<const Event> events = trace.events(Rank{rank});
      if (events.size() <= first) continue;
      more = true;
      for (const Event& event : events.subspan(first, std::min(kTurn, events.size() - first))) {
        sink.on_event(event, trace.names());
      }
    }
  }
}

}  // namespace lockstep
