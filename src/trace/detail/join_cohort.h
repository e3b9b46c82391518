// The way of most events: a rank says what the first one said. Inlined where recorders know a body's
// type.
#pragma once

#include <cstddef>

#include "lockstep/trace/cohort.h"
#include "lockstep/trace/detail/cohort_slot.h"

namespace lockstep {

template <typename Body>
bool Cohort::joins(const EventStamp& stamp, const Body& body, const NameTable& names) {
  const std::size_t rank = to_index(stamp.rank);
  if (rank >= members_.size()) return false;
  Member& member = members_[rank];
  if (!member.in_step || member.next == end_) return false;
  if (!slot(member.next).take(stamp, body, {digest_, &names})) return false;
  // The rank that opened the place has noted its forward; a restart opens none.
  ++n_waiting_;
  ++member.next;
  deliver_waiting(names);
  return true;
}

}  // namespace lockstep
