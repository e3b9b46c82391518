// One place of the streams of a cohort, while its ranks arrive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "lockstep/memory/copy_pages.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/detail/keep_spans.h"
#include "lockstep/trace/detail/twin_fields.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep::detail {

/// What reads the events of a cohort as they arrive, in addition to the readers of slots.
struct ArrivalReader {
  TraceDigest* digest = nullptr;  ///< Or null.
  const NameTable* names = nullptr;
};

/// What the ranks recorded at one place: each an event like the others', or none. Before it, ranks
/// may have recorded something that no other rank did, in asides.
class CohortSlot {
 public:
  explicit CohortSlot(std::size_t n_ranks) : rounds_(n_ranks), arrivals_(n_ranks) {}

  /// Starts over with the event of the rank that comes first.
  void open(const Event& event, const ArrivalReader& reader) {
    copies_.reset();
    asides_.clear();
    ++round_;
    n_arrived_ = 0;
    n_passed_ = 0;
    similarity_ = Similarity::kEqual;
    first_ = event;
    SpanKeeper(copies_).keep(first_.body);
    note(stamp_of(event));
    if (reader.digest == nullptr) return;
    content_ = reader.digest->content_of(event, *reader.names);
    reader.digest->add(stamp_of(event), content_);
  }

  /// False: it does not belong here.
  bool take(const Event& event, const ArrivalReader& reader) {
    return std::visit([&](const auto& body) { return take(stamp_of(event), body, reader); },
                      event.body);
  }

  /// The same for an event of which only the body's type is known so far.
  template <typename Body>
  bool take(const EventStamp& stamp, const Body& body, const ArrivalReader& reader) {
    const Body* const first = std::get_if<Body>(&first_.body);
    if (first == nullptr || stamp.at != first_.at) return false;
    const Similarity similarity = similarity_of(body, *first);
    if (similarity == Similarity::kUnrelated) return false;
    if (reader.digest != nullptr) add(stamp, body, similarity, reader);
    if (similarity != Similarity::kEqual || similarity_ != Similarity::kEqual)
      keep(stamp.rank, body, similarity);
    note(stamp);
    return true;
  }

  /// A rank has nothing to say here.
  void pass() { ++n_passed_; }

  /// What a rank says before it comes here.
  void set_aside(const Event& event, const ArrivalReader& reader) {
    if (reader.digest != nullptr) reader.digest->on_event(event, *reader.names);
    asides_.push_back(event);
    SpanKeeper(copies_).keep(asides_.back().body);
  }

  std::span<const Event> asides() const { return asides_; }

  std::size_t n_events() const { return n_arrived_ + asides_.size(); }

  /// Every rank has come, or has passed by.
  bool is_complete() const { return n_arrived_ + n_passed_ == arrivals_.size(); }

  bool has_all() const { return n_arrived_ == arrivals_.size(); }

  bool has(std::size_t rank) const { return rounds_[rank] == round_; }

  /// Of the ranks that it has; of all if has_all().
  CohortEvent event() const {
    const bool equal = similarity_ == Similarity::kEqual;
    return {similarity_, &first_, arrivals_, equal ? std::span<const EventBody>() : own_};
  }

 private:
  void note(const EventStamp& stamp) {
    const std::size_t rank = to_index(stamp.rank);
    arrivals_[rank] = {stamp.time, stamp.index};
    rounds_[rank] = round_;
    ++n_arrived_;
  }

  template <typename Body>
  void add(const EventStamp& stamp,
           const Body& body,
           Similarity similarity,
           const ArrivalReader& reader) const {
    if (similarity == Similarity::kEqual) {
      reader.digest->add(stamp, content_);
    } else if (similarity == Similarity::kSameShape) {
      reader.digest->add(stamp, content_.with_digests_of(body));
    } else {
      reader.digest->on_event({stamp.rank, stamp.index, stamp.time, stamp.at, EventBody(body)},
                              *reader.names);
    }
  }

  template <typename Body>
  void keep(Rank rank, const Body& body, Similarity similarity) {
    if (similarity_ == Similarity::kEqual) give_each_its_own();
    similarity_ = std::max(similarity_, similarity);
    EventBody& own = own_[to_index(rank)];
    if (similarity == Similarity::kEqual) {
      own = first_.body;
      return;
    }
    Body& kept = own.emplace<Body>(body);
    SpanKeeper keeper(copies_);
    if (similarity == Similarity::kSameShape) {
      keeper.keep_measured(kept, *std::get_if<Body>(&first_.body));
    } else {
      keeper(kept);
    }
  }

  /// Until now one body stood for all ranks that have arrived.
  void give_each_its_own() {
    own_.resize(arrivals_.size());
    for (std::size_t rank = 0; rank < own_.size(); ++rank) {
      if (has(rank)) own_[rank] = first_.body;
    }
  }

  Event first_;
  Similarity similarity_ = Similarity::kEqual;
  std::size_t n_arrived_ = 0;
  std::size_t n_passed_ = 0;
  std::uint32_t round_ = 0;            // How often it was opened.
  std::vector<std::uint32_t> rounds_;  // By rank: in which round it came last.
  std::vector<CohortEvent::Arrival> arrivals_;
  std::vector<EventBody> own_;
  std::vector<Event> asides_;
  CopyPages copies_;
  TraceDigest::Content content_;  // Of the first.
};

}  // namespace lockstep::detail
