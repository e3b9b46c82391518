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
#include "lockstep/trace/detail/body_kind.h"
#include "lockstep/trace/detail/cohort/grad_rows.h"
#include "lockstep/trace/detail/keep_spans.h"
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
  void open(const Event& event, ArrivalReader reader) {
    copies_.reset();
    asides_.clear();
    ++round_;
    n_arrived_ = 0;
    n_passed_ = 0;
    similarity_ = Similarity::kEqual;
    has_rows_ = false;
    first_ = event;
    SpanKeeper(copies_).keep(first_.body);
    first_body_ = BodyRef::of(first_.body);
    note(stamp_of(event));
    if (reader.digest == nullptr) return;
    content_ = reader.digest->content_of(event, *reader.names);
    reader.digest->add(stamp_of(event), content_);
  }

  /// False: it does not belong here.
  [[gnu::always_inline]] bool take(const EventStamp& stamp, BodyRef body, ArrivalReader reader) {
    if (body.kind != first_body_.kind || stamp.at != first_.at) return false;
    const Similarity similarity = body.kind->similarity(body.body, first_body_.body);
    if (similarity == Similarity::kUnrelated) return false;
    if (similarity != Similarity::kEqual || similarity_ != Similarity::kEqual) {
      keep(stamp, body, similarity, reader);
    } else if (reader.digest != nullptr) {
      reader.digest->add(stamp, content_);
    }
    note(stamp);
    return true;
  }

  bool take(const Event& event, ArrivalReader reader) {
    return take(stamp_of(event), BodyRef::of(event.body), reader);
  }

  /// A rank has nothing to say here.
  void pass() { ++n_passed_; }

  /// What a rank says before it comes here.
  void set_aside(const Event& event, ArrivalReader reader) {
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
    const bool has_own = similarity_ != Similarity::kEqual && !has_rows_;
    return {similarity_,
            &first_,
            arrivals_,
            has_rows_ ? &rows_ : nullptr,
            has_own ? own_ : std::span<const EventBody>()};
  }

 private:
  [[gnu::always_inline]] void note(const EventStamp& stamp) {
    const std::size_t rank = to_index(stamp.rank);
    arrivals_[rank] = {stamp.time, stamp.index};
    rounds_[rank] = round_;
    ++n_arrived_;
  }

  void keep(const EventStamp& stamp, BodyRef body, Similarity similarity, ArrivalReader reader);
  void add(const EventStamp& stamp,
           BodyRef body,
           Similarity similarity,
           ArrivalReader reader) const;
  void keep_row(Rank rank, const GradEvent& grad);
  void keep_own(Rank rank, BodyRef body, Similarity similarity);
  void give_each_its_own();

  Event first_;
  BodyRef first_body_;  // In it.
  Similarity similarity_ = Similarity::kEqual;
  std::size_t n_arrived_ = 0;
  std::size_t n_passed_ = 0;
  std::uint32_t round_ = 0;            // How often it was opened.
  std::vector<std::uint32_t> rounds_;  // By rank: in which round it came last.
  std::vector<CohortEvent::Arrival> arrivals_;
  std::vector<EventBody> own_;
  GradRows rows_;
  bool has_rows_ = false;
  std::vector<Event> asides_;
  CopyPages copies_;
  TraceDigest::Content content_;  // Of the first.
};

}  // namespace lockstep::detail
