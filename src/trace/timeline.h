// A trace as things with a beginning and an end: what every picture of a run is drawn from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// Something to pin on a rank's track: a finding, as text.
struct TimelineNote {
  Rank rank{};
  std::string title;  ///< "replicas-equal"
  std::string text;   ///< The whole sentence.
  std::int32_t attempt = 0;
  std::optional<std::int64_t> step = {};  ///< Pinned to the end of this optimizer step,
  std::optional<std::int32_t> group = {};
  std::optional<std::int64_t> seq = {};  ///< or to this call of `group`; else to the rank's end.
};

/// A fact about an entry.
struct TimelineFact {
  std::string key;
  std::string value;
  bool is_text = false;  ///< Otherwise a number.
};

/// What an entry is about: viewers show and filter by its word.
enum class TimelineCategory : std::uint8_t {
  kCompute,
  kBucket,      ///< kCall: the reduction of a bucket; kMark: a layout of buckets.
  kCollective,  ///< kCall: any other.
  kFault,
  kTouch,
  kDecision,
  kLog,
  kEnd,
  kFinding,
};
template <>
inline constexpr EnumNames<9> kEnumNames<TimelineCategory> = {
    "compute", "bucket", "collective", "fault", "touch", "decision", "log", "end", "finding"};

/// Whether a wrapper's backward posted this call and waits for it before it ends. Our own reducer says which parameters a
/// bucket holds; PyTorch's calls have at least a scope (docs/trace_format.md).
bool is_awaited_by_backward(const CollectiveEvent& posted);

/// Of those calls, a bucket's: not one that says which parameters were used.
bool reduces_bucket(const CollectiveEvent& posted);

/// One thing on a rank's track.
struct TimelineEntry {
  enum class Kind : std::uint8_t {
    kPhase,  ///< An evaluation or a snapshot.
    kStep,   ///< An optimizer step: forwards, backwards, the update.
    kPart,   ///< In one of the two: a forward, a backward, the update.
    kWait,   ///< A call that blocks its rank, once more: on its own track.
    kCall,   ///< A collective or a message, from post to completion.
    kMark,   ///< Takes no time: a fault, a finding, a bucket layout, a decision, a log line, the
             ///< end.
  };

  Kind kind = Kind::kMark;
  bool blocks = false;  ///< kCall: the rank waits for it at once.
  std::int32_t rank = 0;
  std::int64_t start = 0;  ///< Nanoseconds.
  std::int64_t end = 0;
  TimelineCategory category = TimelineCategory::kCompute;
  bool failed = false;  ///< kCall: it did not complete; kEnd: badly.
  std::string name;     ///< "backward", "all_reduce #7", "fault: slow"
  std::string status;   ///< kCall: "ok", "peer_lost", "never completed", ...
  std::vector<TimelineFact> facts;
};

/// All entries of a run, in the order of their ends, rank after rank; then the notes.
struct TimelineEntries {
  std::vector<TimelineEntry> entries;
  bool timed = false;  ///< False: the times count events, a thousand each.
};

/// What happened when. Forward ends where the first sign of a backward pass is, since that has no
/// event; calls that never end are drawn up to the end of their rank.
///
/// Units: the trace's own time. Where all times are 0 (untimed runs), an event takes one
///     microsecond, and a completion comes after the posts it needs.
TimelineEntries timeline_entries(const MemoryTrace& trace,
                                 std::span<const TimelineNote> notes = {});

}  // namespace lockstep
