// Two numbers for a whole run: one that sees everything, one that sees only results.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Folds events as they come.
///
/// trace():  kinds, positions, times, call sites, digests, and the order in which events of
///           different ranks interleaved: equal iff two runs did the same things in the same order.
/// result(): per rank, without times, call sites, faults, logs and machines; completions of
///           collectives count without their place in the rank's stream: equal for all legal
///           schedules of a correct job.
///
/// Deterministic: names enter by text, never by id.
class TraceDigest final : public EventSink {
 public:
  /// What an event and its position amount to, without its rank, index and time: equal events of
  /// several ranks are folded once.
  class Content {
   public:
   private:
    friend class TraceDigest;

    enum class Part : std::uint8_t { kNone, kProgram, kCompletion };

    std::array<std::uint64_t, 3> chains_{};  ///< To which a rank adds its own words,
    std::uint64_t last_ = 0;                 ///< and one that is finished, with the call site.
    std::uint64_t digests_ = 0;              ///< Of tensors, or of what was measured of them.
    std::uint64_t result_ = 0;               ///< What the result takes of it.
    Part part_ = Part::kNone;                ///< Where the result takes it.
  };

  void on_event(const Event& event, const NameTable& names) override {
    // Values are extras that a run may carry or not; their digests are in the events next to them.
    if (std::holds_alternative<ValueEvent>(event.body)) return;
    add(stamp_of(event), content_of(event, names));
  }

  /// Requires: not the content of a ValueEvent.
  Content content_of(const Event& event, const NameTable& names);

  /// An event whose content is known.
  void add(const EventStamp& stamp, const Content& content) {
    add(stamp, content, content.digests_);
  }

  /// One at the same position that has the shape of a known one (Similarity::kSameShape), and what was
  /// measured() of it.
  void add(const EventStamp& stamp, const Content& content, std::uint64_t measured);

  /// What the digests of tensors in this body amount to, or what was measured of them; nothing where it
  /// has none.
  template <typename Body>
  static std::optional<std::uint64_t> measured(const Body& body);

  std::uint64_t trace() const;

  std::uint64_t result() const;

  std::int64_t n_events() const { return n_events_; }

 private:
  class Folder;

  struct RankResult {
    std::uint64_t program = 0;
    std::uint64_t completions = 0;  // A sum: their order does not count.
  };

  static std::uint64_t hash_of(std::span<const std::uint64_t> digests);
  static std::uint64_t hash_of(double measure);
  std::uint64_t hash_of(NameId id, const NameTable& names);
  std::uint64_t hash_of(LayoutId id, const NameTable& names);
  std::uint64_t hash_of_file(const char* file);

  std::uint64_t trace_ = 0;
  std::int64_t n_events_ = 0;
  std::vector<RankResult> by_rank_;
  // A text is hashed once; 0 = not yet.
  std::vector<std::uint64_t> name_hashes_;    // By NameId.
  std::vector<std::uint64_t> layout_hashes_;  // By LayoutId.
  const char* last_file_ = nullptr;
  std::uint64_t last_file_hash_ = 0;
};

template <typename Body>
std::optional<std::uint64_t> TraceDigest::measured(const Body& body) {
  if constexpr (requires { body.digests; }) {
    return hash_of(body.digests);
  } else if constexpr (std::is_same_v<Body, LossEvent>) {
    return hash_of(body.value);
  } else {
    return std::nullopt;
  }
}

}  // namespace lockstep
