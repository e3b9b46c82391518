#include "lockstep/trace/cohort.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/trace/detail/cohort_bar.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep {

Cohort::Cohort() = default;

Cohort::~Cohort() = default;

void Cohort::begin(std::int32_t n_ranks, CohortSink& sink, TraceDigest* digest) {
  sink_ = &sink;
  digest_ = digest;
  reads_ = sink.reads();
  members_.assign(n_ranks > 1 ? static_cast<std::size_t>(n_ranks) : 0, Member{});
  if (members_.size() != n_bar_ranks_) bars_.clear();
  n_bar_ranks_ = members_.size();
  begin_ = end_ = 0;
  n_waiting_ = 0;
  last_sync_ = -1;
  meeting_sync_ = 0;
  patience_ = 1;
}

void Cohort::on_event(const Event& event, const NameTable& names) {
  if (event.at.attempt > 0 && !members_.empty()) {
    // Another attempt may have another number of ranks.
    fall_out(names);
    members_.clear();
  }
  if (!waits(event)) return alone(event, names);
  if (event.at.wrapper == 0) last_sync_ = std::max(last_sync_, event.at.sync);
  Member& member = members_[to_index(event.rank)];
  if (!member.in_step && !steps_in(member, event)) return alone(event, names);
  ++n_waiting_;
  const detail::ArrivalReader reader{digest_, &names};
  if (member.next == end_) {
    open(event, reader);
    ++member.next;
  } else if (bar(member.next).take(event, reader) || passes_on(member, event, reader)) {
    ++member.next;
  } else {
    bar(member.next).set_aside(event, reader);
  }
  if (bar(begin_).is_complete()) {
    close_complete(names);
  } else if (n_waiting_ > kMostWaiting || bar(begin_).asides().size() > kMostAsides) {
    fall_out(names);
  }
}

// Whether the event belongs to one of the next bars, and the rank has nothing to say at those
// before it.
bool Cohort::passes_on(Member& member, const Event& event, const detail::ArrivalReader& reader) {
  const std::int64_t last = std::min(end_, member.next + kMostPassed);
  for (std::int64_t number = member.next + 1; number < last; ++number) {
    if (!bar(number).take(event, reader)) continue;
    while (member.next < number) bar(member.next++).pass();
    return true;
  }
  return false;
}

bool Cohort::waits(const Event& event) const {
  const std::int32_t rank = to_int(event.rank);
  if (rank < 0 || to_index(event.rank) >= members_.size()) return false;
  return ((reads_ >> event.body.index()) & 1U) != 0;
}

bool Cohort::steps_in(Member& member, const Event& event) const {
  member.in_step = event.at.wrapper == 0 && event.at.sync == meeting_sync_;
  return member.in_step;
}

void Cohort::alone(const Event& event, const NameTable& names) {
  if (digest_ != nullptr) digest_->on_event(event, names);
  sink_->on_event(event, names);
}

void Cohort::open(const Event& event, const detail::ArrivalReader& reader) {
  if (end_ - begin_ == static_cast<std::int64_t>(bars_.size())) grow();
  std::unique_ptr<Bar>& place = bars_[place_of(end_)];
  if (place == nullptr) place = std::make_unique<Bar>(members_.size());
  place->open(event, reader);
  ++end_;
}

void Cohort::grow() {
  constexpr std::size_t kFirst = 16;
  std::vector<std::unique_ptr<Bar>> larger(std::max(kFirst, 2 * bars_.size()));
  std::swap(bars_, larger);
  for (std::int64_t number = begin_; number < end_; ++number) {
    bars_[place_of(number)] =
        std::move(larger[static_cast<std::size_t>(number) & (larger.size() - 1)]);
  }
}

// A bar is complete only behind those before it: each rank comes to them in order.
void Cohort::close_complete(const NameTable& names) {
  while (begin_ < end_ && bar(begin_).is_complete()) {
    const Bar& here = bar(begin_);
    for (const Event& event : here.asides()) sink_->on_event(event, names);
    if (here.has_all()) {
      sink_->on_cohort(here.event(), names);
    } else {
      for (std::size_t rank = 0; rank < members_.size(); ++rank) tell(here, rank, names);
    }
    n_waiting_ -= here.n_events();
    ++begin_;
  }
}

void Cohort::tell(const Bar& bar, std::size_t rank, const NameTable& names) {
  if (bar.has(rank)) sink_->on_event(bar.event().of(static_cast<std::int32_t>(rank)), names);
}

void Cohort::fall_out(const NameTable& names) {
  // Each rank's own order is kept if its asides are told before what it says at their bar, and all
  // bars in turn.
  for (std::int64_t number = begin_; number < end_; ++number) {
    for (const Event& event : bar(number).asides()) sink_->on_event(event, names);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) tell(bar(number), rank, names);
  }
  for (Member& member : members_) member = {.next = end_, .in_step = false};
  begin_ = end_;
  n_waiting_ = 0;
  constexpr std::int32_t kMostPatience = 1 << 20;
  meeting_sync_ = last_sync_ + patience_;
  patience_ = std::min(2 * patience_, kMostPatience);
}

void Cohort::flush(const NameTable& names) {
  if (begin_ < end_) fall_out(names);
}

}  // namespace lockstep
