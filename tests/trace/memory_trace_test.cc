#include "lockstep/trace/memory_trace.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

/// Events of rank 0 until the trace refuses one, or `n_most`.
std::uint64_t fill(MemoryTrace& trace, std::uint64_t n_most) {
  std::array<std::int64_t, 64> ids{};
  for (std::uint64_t n = 0; n < n_most; ++n) {
    ids.fill(static_cast<std::int64_t>(n));
    SampleEvent batch;
    batch.ids = ids;
    try {
      trace.on_event(Event{Rank{0}, n, {}, {}, EventBody(batch)}, trace.names());
    } catch (const std::bad_alloc&) {
      return n;
    }
  }
  return n_most;
}

TEST(MemoryTraceTest, RefusesEventsBeforeMemoryEndsAndStaysReadable) {
  MemoryTrace trace(std::make_shared<NameTable>(),
                    []() -> std::optional<std::uint64_t> { return 48 * kMiB; });
  const std::uint64_t n = fill(trace, 1'000'000);

  EXPECT_GT(n, 20'000U);  // 32 MiB are taken unasked.
  EXPECT_LT(n, 200'000U);
  ASSERT_EQ(trace.order().size(), n);
  const std::span<const Event> kept = trace.events(Rank{0});
  ASSERT_EQ(kept.size(), n);
  const auto& last = std::get<SampleEvent>(kept.back().body);
  EXPECT_TRUE(std::all_of(last.ids.begin(), last.ids.end(), [&](std::int64_t id) {
    return id == static_cast<std::int64_t>(n) - 1;
  }));
  trace.on_event(Event{Rank{1}, 0, {}, {}, EventBody(EndEvent{})}, trace.names());
  EXPECT_EQ(trace.order().back(), Rank{1});
}

// Few events, each of them of a megabyte: what they point to counts, too.
TEST(MemoryTraceTest, RefusesLargeEventsBeforeMemoryEnds) {
  MemoryTrace trace(std::make_shared<NameTable>(),
                    []() -> std::optional<std::uint64_t> { return 48 * kMiB; });
  const std::vector<std::int64_t> ids(kMiB / sizeof(std::int64_t));
  SampleEvent batch;
  batch.ids = ids;
  const auto keep_many = [&] {
    for (std::uint64_t n = 0; n < 200; ++n) {
      trace.on_event(Event{Rank{0}, n, {}, {}, EventBody(batch)}, trace.names());
    }
  };
  EXPECT_THROW(keep_many(), std::bad_alloc);
}

// Many events that point to nothing: the lists that hold them count, too.
TEST(MemoryTraceTest, RefusesSmallEventsBeforeMemoryEnds) {
  MemoryTrace trace(std::make_shared<NameTable>(),
                    []() -> std::optional<std::uint64_t> { return 48 * kMiB; });
  const auto keep_many = [&] {
    for (std::uint64_t n = 0; n < 256 * kMiB / sizeof(Event); ++n) {
      trace.on_event(Event{Rank{0}, n, {}, {}, EventBody(EndEvent{})}, trace.names());
    }
  };
  EXPECT_THROW(keep_many(), std::bad_alloc);
}

TEST(MemoryTraceTest, KeepsEventsWhileMemoryIsLeft) {
  MemoryTrace trace(std::make_shared<NameTable>(),
                    []() -> std::optional<std::uint64_t> { return 4096 * kMiB; });
  EXPECT_EQ(fill(trace, 200'000), 200'000U);
}

}  // namespace
}  // namespace lockstep
