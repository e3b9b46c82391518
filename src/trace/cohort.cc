#include "lockstep/trace/cohort.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/trace/detail/cohort/cohort_slot.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep {

Cohort::Cohort() = default;

Cohort::~Cohort() = default;

void Cohort::begin(std::int32_t n_ranks, CohortSink& sink, TraceDigest* digest) {
  sink_ = &sink;
  digest_ = digest;
  reads_ = sink.reads();
  members_.assign(n_ranks > 1 ? static_cast<std::size_t>(n_ranks) : 0, Member{});
  if (members_.size() != n_slot_ranks_) slots_.clear();
  n_slot_ranks_ = members_.size();
  begin_ = end_ = 0;
  for (detail::GradPrints& prints : read_.reduced) prints.forget();
  n_waiting_ = 0;
  rejoining_ = {};
}

void Cohort::on_event(const Event& event, const NameTable& names) {
  if (event.at.attempt > 0 && !members_.empty()) {
    // Another attempt may have a different number of ranks.
    lose_step(names);
    members_.clear();
  }
  if (!waits(event)) return alone(event, names);
  if (event.at.wrapper == 0) rejoining_.last_sync = std::max(rejoining_.last_sync, event.at.sync);
  Member& member = members_[to_index(event.rank)];
  if (!member.in_step && !rejoins(member, event)) return alone(event, names);
  ++n_waiting_;
  const detail::ArrivalReader reader{digest_, &names};
  if (member.next == end_) {
    open(event, reader);
    ++member.next;
  } else if (slot(member.next).take(event, reader) || passes_on(member, event, reader)) {
    ++member.next;
  } else {
    slot(member.next).set_aside(event, reader);
  }
  deliver_waiting(names);
}

// The way of most events: a rank says what the first one said.
bool Cohort::joins(const EventStamp& stamp, detail::BodyRef body, const NameTable& names) {
  const std::size_t rank = to_index(stamp.rank);
  if (rank >= members_.size()) return false;
  Member& member = members_[rank];
  if (!member.in_step || member.next == end_) return false;
  Slot& place = slot(member.next);
  if (!place.take(stamp, body, {digest_, &names})) return false;
  // The rank that opened the place has noted its forward; a restart opens none.
  ++n_waiting_;
  ++member.next;
  // Nothing else can have become complete.
  if (place.is_complete() || n_waiting_ > kMaxWaiting) deliver_waiting(names);
  return true;
}

void Cohort::deliver_waiting(const NameTable& names) {
  if (slot(begin_).is_complete()) {
    close_complete(names);
  } else if (n_waiting_ > kMaxWaiting || slot(begin_).asides().size() > kMaxAsides) {
    lose_step(names);
  }
}

// Whether the event belongs to one of the next slots, and the rank has nothing to record in those
// before it.
bool Cohort::passes_on(Member& member, const Event& event, detail::ArrivalReader reader) {
  const std::int64_t last = std::min(end_, member.next + kMaxPassed);
  for (std::int64_t number = member.next + 1; number < last; ++number) {
    if (!slot(number).take(event, reader)) continue;
    while (member.next < number) slot(member.next++).pass();
    return true;
  }
  return false;
}

bool Cohort::waits(const Event& event) const {
  const std::int32_t rank = to_int(event.rank);
  if (rank < 0 || to_index(event.rank) >= members_.size()) return false;
  return ((reads_ >> event.body.index()) & 1U) != 0;
}

bool Cohort::rejoins(Member& member, const Event& event) const {
  member.in_step = event.at.wrapper == 0 && event.at.sync == rejoining_.at;
  return member.in_step;
}

void Cohort::alone(const Event& event, const NameTable& names) {
  if (digest_ != nullptr) digest_->on_event(event, names);
  sink_->on_event(event, names);
}

void Cohort::open(const Event& event, detail::ArrivalReader reader) {
  if (end_ - begin_ == static_cast<std::int64_t>(slots_.size())) grow();
  std::unique_ptr<Slot>& place = slots_[place_of(end_)];
  if (place == nullptr) place = std::make_unique<Slot>(members_.size());
  place->open(event, reader);
  ++end_;
}

void Cohort::grow() {
  constexpr std::size_t kFirst = 16;
  std::vector<std::unique_ptr<Slot>> larger(std::max(kFirst, 2 * slots_.size()));
  std::swap(slots_, larger);
  for (std::int64_t number = begin_; number < end_; ++number) {
    slots_[place_of(number)] =
        std::move(larger[static_cast<std::size_t>(number) & (larger.size() - 1)]);
  }
}

// A slot is complete only after those before it: each rank comes to them in order.
void Cohort::close_complete(const NameTable& names) {
  while (begin_ < end_ && slot(begin_).is_complete()) {
    const Slot& here = slot(begin_);
    for (const Event& event : here.asides()) sink_->on_event(event, names);
    if (here.has_all()) {
      sink_->on_cohort(here.event(), names);
    } else {
      for (std::size_t rank = 0; rank < members_.size(); ++rank) deliver_alone(here, rank, names);
    }
    n_waiting_ -= here.n_events();
    ++begin_;
  }
}

void Cohort::deliver_alone(const Slot& slot, std::size_t rank, const NameTable& names) {
  if (slot.has(rank)) sink_->on_event(slot.event().of(static_cast<std::int32_t>(rank)), names);
}

void Cohort::lose_step(const NameTable& names) {
  // Each rank's own order is kept if its asides are delivered before what it recorded in their
  // slot, and all slots in turn.
  for (std::int64_t number = begin_; number < end_; ++number) {
    for (const Event& event : slot(number).asides()) sink_->on_event(event, names);
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      deliver_alone(slot(number), rank, names);
  }
  for (Member& member : members_) member = {.next = end_, .in_step = false};
  begin_ = end_;
  n_waiting_ = 0;
  constexpr std::int32_t kMostPatience = 1 << 20;
  rejoining_.at = rejoining_.last_sync + rejoining_.backoff;
  rejoining_.backoff = std::min(2 * rejoining_.backoff, kMostPatience);
}

detail::GradPrints& Cohort::reduced_prints(std::int32_t wrapper) {
  const auto place = static_cast<std::size_t>(wrapper);
  while (place >= read_.reduced.size()) {
    read_.reduced.push_back(detail::GradPrints::of_all_ranks());
  }
  return read_.reduced[place];
}

detail::SharedDigests* Cohort::shared_digests(LayoutId layout) {
  if (members_.empty()) return nullptr;
  const auto place = static_cast<std::size_t>(layout);
  if (place >= read_.states.size()) read_.states.resize(place + 1);
  return &read_.states[place];
}

void Cohort::flush(const NameTable& names) {
  if (begin_ < end_) lose_step(names);
}

}  // namespace lockstep
