#include "lockstep/trace/cohort.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/trace/detail/keep_spans.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep {

namespace {

/// Memory for copies that live until the next reset; a warm one allocates nothing.
class CopyPages {
 public:
  void* allocate(std::size_t n_bytes) {
    const std::size_t rounded = (n_bytes + 15) / 16 * 16;
    while (page_ < pages_.size() && used_ + rounded > pages_[page_].size) {
      ++page_;
      used_ = 0;
    }
    if (page_ == pages_.size()) add_page(rounded);
    void* const block = pages_[page_].bytes.get() + used_;
    used_ += rounded;
    return block;
  }

  void reset() {
    page_ = 0;
    used_ = 0;
  }

 private:
  struct Page {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };

  void add_page(std::size_t least) {
    constexpr std::size_t kFirstBytes = 1024;
    const std::size_t size = std::max(least, pages_.empty() ? kFirstBytes : 2 * pages_.back().size);
    pages_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }

  std::vector<Page> pages_;
  std::size_t page_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

/// One place of the streams, while ranks come in.
class Cohort::Bar {
 public:
  explicit Bar(std::size_t n_ranks) : came_(n_ranks), arrivals_(n_ranks) {}

  /// Begins anew with the event of the rank that comes first.
  void open(const Event& event, TraceDigest* digest, const NameTable& names) {
    copies_.reset();
    n_arrived_ = 0;
    likeness_ = Likeness::kEqual;
    first_ = event;
    detail::SpanKeeper(copies_).keep(first_.body);
    note(event);
    if (digest == nullptr) return;
    content_ = digest->content_of(event, names);
    digest->add(event, content_);
  }

  /// False: it does not belong here.
  bool take(const Event& event, TraceDigest* digest, const NameTable& names) {
    if (event.at != first_.at) return false;
    const Likeness likeness = likeness_of(event.body, first_.body);
    if (likeness == Likeness::kForeign) return false;
    if (digest != nullptr) add(event, likeness, *digest, names);
    if (likeness != Likeness::kEqual || likeness_ != Likeness::kEqual) keep(event, likeness);
    note(event);
    return true;
  }

  std::size_t n_arrived() const { return n_arrived_; }

  CohortEvent event() const {
    const bool equal = likeness_ == Likeness::kEqual;
    return {likeness_, &first_, arrivals_, equal ? std::span<const EventBody>() : own_};
  }

 private:
  void note(const Event& event) {
    arrivals_[to_index(event.rank)] = {event.time, event.index};
    came_[n_arrived_++] = to_int(event.rank);
  }

  void add(const Event& event,
           Likeness likeness,
           TraceDigest& digest,
           const NameTable& names) const {
    if (likeness == Likeness::kEqual) {
      digest.add(event, content_);
    } else if (likeness == Likeness::kShaped) {
      digest.add(event, content_.with_digests_of(event.body));
    } else {
      digest.on_event(event, names);
    }
  }

  void keep(const Event& event, Likeness likeness) {
    if (likeness_ == Likeness::kEqual) tell_apart();
    likeness_ = std::max(likeness_, likeness);
    EventBody& own = own_[to_index(event.rank)];
    if (likeness == Likeness::kEqual) {
      own = first_.body;
      return;
    }
    own = event.body;
    detail::SpanKeeper keeper(copies_);
    if (likeness == Likeness::kShaped) {
      keeper.keep_measured(own, first_.body);
    } else {
      keeper.keep(own);
    }
  }

  /// Until now one body stood for all that have come.
  void tell_apart() {
    own_.resize(arrivals_.size());
    for (std::size_t i = 0; i < n_arrived_; ++i) {
      own_[static_cast<std::size_t>(came_[i])] = first_.body;
    }
  }

  Event first_;
  Likeness likeness_ = Likeness::kEqual;
  std::size_t n_arrived_ = 0;
  std::vector<std::int32_t> came_;  // Ranks, n_arrived_ of them.
  std::vector<CohortEvent::Arrival> arrivals_;
  std::vector<EventBody> own_;
  CopyPages copies_;
  TraceDigest::Content content_;  // Of the first.
};

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
  if (member.next == end_) {
    open(event, names);
  } else if (!bar(member.next).take(event, digest_, names)) {
    fall_out(names);
    return alone(event, names);
  }
  Bar& here = bar(member.next++);
  ++n_waiting_;
  if (here.n_arrived() == members_.size()) {
    close(here, names);
  } else if (n_waiting_ > kMostWaiting) {
    fall_out(names);
  }
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

void Cohort::open(const Event& event, const NameTable& names) {
  if (end_ - begin_ == static_cast<std::int64_t>(bars_.size())) grow();
  std::unique_ptr<Bar>& place = bars_[place_of(end_)];
  if (place == nullptr) place = std::make_unique<Bar>(members_.size());
  place->open(event, digest_, names);
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

// A bar is complete only behind those before it: each rank fills them in order.
void Cohort::close(const Bar& bar, const NameTable& names) {
  sink_->on_cohort(bar.event(), names);
  ++begin_;
  n_waiting_ -= members_.size();
}

void Cohort::fall_out(const NameTable& names) {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    Member& member = members_[rank];
    for (std::int64_t number = begin_; member.in_step && number < member.next; ++number) {
      sink_->on_event(bar(number).event().of(static_cast<std::int32_t>(rank)), names);
    }
    member = {.next = end_, .in_step = false};
  }
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
