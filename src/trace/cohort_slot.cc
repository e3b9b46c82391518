#include "lockstep/trace/detail/cohort/cohort_slot.h"

namespace lockstep::detail {

// An event that is not what the first one was, or that comes after such a one.
void CohortSlot::keep(const EventStamp& stamp,
                      BodyRef body,
                      Similarity similarity,
                      ArrivalReader reader) {
  if (reader.digest != nullptr) add(stamp, body, similarity, reader);
  if (body.is<GradEvent>() && std::max(similarity_, similarity) == Similarity::kSameShape) {
    keep_row(stamp.rank, *static_cast<const GradEvent*>(body.body));
  } else {
    keep_own(stamp.rank, body, similarity);
  }
}

void CohortSlot::add(const EventStamp& stamp,
                     BodyRef body,
                     Similarity similarity,
                     ArrivalReader reader) const {
  if (similarity == Similarity::kEqual) return reader.digest->add(stamp, content_);
  if (similarity == Similarity::kSameShape) {
    if (const auto measured = body.kind->measured(body.body)) {
      return reader.digest->add(stamp, content_, *measured);
    }
  }
  Event event{stamp.rank, stamp.index, stamp.time, stamp.at, {}};
  body.kind->copy(body.body, event.body);
  reader.digest->on_event(event, *reader.names);
}

void CohortSlot::keep_row(Rank rank, const GradEvent& grad) {
  if (!has_rows_) {
    const auto& first = *std::get_if<GradEvent>(&first_.body);
    rows_.start(arrivals_.size(), first);
    for (std::size_t other = 0; other < arrivals_.size(); ++other) {
      if (has(other)) rows_.set(other, first);
    }
    has_rows_ = true;
    similarity_ = Similarity::kSameShape;
  }
  rows_.set(to_index(rank), grad);
}

void CohortSlot::keep_own(Rank rank, BodyRef body, Similarity similarity) {
  if (similarity_ == Similarity::kEqual || has_rows_) give_each_its_own();
  similarity_ = std::max(similarity_, similarity);
  EventBody& own = own_[to_index(rank)];
  if (similarity == Similarity::kEqual) {
    own = first_.body;
    return;
  }
  body.kind->copy(body.body, own);
  SpanKeeper(copies_).keep(own);
}

// Until now one body, or one shape, stood for all ranks that have arrived.
void CohortSlot::give_each_its_own() {
  own_.resize(arrivals_.size());
  const CohortEvent until_now = event();
  for (std::size_t rank = 0; rank < own_.size(); ++rank) {
    if (has(rank)) own_[rank] = until_now.body_of(static_cast<std::int32_t>(rank));
  }
  has_rows_ = false;
}

}  // namespace lockstep::detail
