// Where walks begin, so that each order's additions come about.
#include <algorithm>
#include <numeric>

#include "lockstep/comm/detail/gloo_order.h"
#include "lockstep/comm/detail/nccl_order.h"
#include "lockstep/sim/net/detail/ring_flight.h"

namespace lockstep::sim {

namespace {

/// Adds routes, cut into pieces.
class Planner {
 public:
  Planner(const FlightJob& job, const ReductionOrder& order, std::int64_t chunk)
      : job_(&job),
        order_(&order),
        chunk_(chunk),
        n_(static_cast<std::int32_t>(job.members.size())),
        elem_bytes_(size_of(job.dtype)) {}

  RingPlan plan();

 private:
  void add(RingRoute route);
  void add_ring(std::span<const std::int32_t> listed);
  void plan_moves();
  void plan_rank();
  void plan_gloo();
  void plan_nccl_all_reduce();
  void plan_nccl_scatter();
  std::vector<std::int64_t> channel_ends(std::int64_t times) const;

  bool scatters() const { return job_->op == CollectiveOp::kReduceScatter; }

  std::int32_t next(std::int32_t place) const { return place + 1 == n_ ? 0 : place + 1; }

  std::int32_t place_of(std::int32_t member, std::size_t ring) const {
    const std::vector<std::int32_t>& places = plan_.rings[ring];
    return static_cast<std::int32_t>(std::find(places.begin(), places.end(), member) -
                                     places.begin());
  }

  const FlightJob* job_;
  const ReductionOrder* order_;
  std::int64_t chunk_;
  std::int32_t n_;
  std::int64_t elem_bytes_;
  RingPlan plan_;
};

void Planner::add(RingRoute route) {
  const std::int64_t end = route.begin + route.count;
  for (std::int64_t at = route.begin; at < end; at += route.count) {
    route.begin = at;
    route.count = std::min(chunk_, end - at);
    plan_.routes.push_back(route);
  }
}

void Planner::add_ring(std::span<const std::int32_t> listed) {
  std::vector<std::int32_t> ring(listed.begin(), listed.end());
  if (ring.size() != static_cast<std::size_t>(n_)) {
    ring.resize(static_cast<std::size_t>(n_));
    std::iota(ring.begin(), ring.end(), 0);
  }
  plan_.rings.push_back(std::move(ring));
}

// Nothing is added: each part starts at its owner.
void Planner::plan_moves() {
  add_ring(order_->ring(0));
  const bool all = job_->op == CollectiveOp::kAllGather;
  for (std::int32_t m = 0; m < n_; ++m) {
    if (!all && m != job_->root) continue;
    add({.begin = 0, .count = job_->count, .part = all ? m : 0, .start = place_of(m, 0)});
  }
}

// From rank 0 up.
void Planner::plan_rank() {
  add_ring({});
  for (std::int32_t part = 0; part < (scatters() ? n_ : 1); ++part) {
    add({.begin = 0, .count = job_->count, .part = part});
  }
}

// Chunk c starts at rank c-1 and walks down to rank c.
void Planner::plan_gloo() {
  std::vector<std::int32_t> down(static_cast<std::size_t>(n_));
  for (std::int32_t place = 0; place < n_; ++place) {
    down[static_cast<std::size_t>(place)] = (n_ - place) % n_;
  }
  plan_.rings.push_back(std::move(down));
  const std::int32_t n_parts = scatters() ? n_ : 1;
  const std::int64_t total = job_->count * n_parts;
  const std::int64_t chunk = detail::gloo_ring_chunk(total, elem_bytes_, n_);
  for (std::int32_t part = 0; part < n_parts; ++part) {
    const std::int64_t offset = part * job_->count;
    std::int64_t begin = 0;
    while (begin < job_->count) {
      const std::int64_t c = (offset + begin) / chunk;
      const std::int64_t end = std::min((c + 1) * chunk - offset, job_->count);
      const auto owner = static_cast<std::int32_t>(c);
      add({.begin = begin, .count = end - begin, .part = part, .start = next((n_ - owner) % n_)});
      begin = end;
    }
  }
}

// NCCL counts each byte `times` times.
std::vector<std::int64_t> Planner::channel_ends(std::int64_t times) const {
  return detail::channel_ends(job_->count,
                              elem_bytes_,
                              order_->n_channels(),
                              detail::traffic_of(times, order_->protocol()));
}

// In each loop over a channel, chunk c ends at place c.
void Planner::plan_nccl_all_reduce() {
  const auto ends = channel_ends(2);
  std::int64_t begin = 0;
  for (std::size_t channel = 0; channel < ends.size(); ++channel) {
    const auto ring = static_cast<std::int32_t>(channel);
    add_ring(order_->ring(ring));
    std::int64_t chunk = 0;
    for (std::int64_t loop = begin; loop < ends[channel]; loop += n_ * chunk) {
      chunk = detail::nccl_loop_chunk(ends[channel] - loop, elem_bytes_, n_, order_->protocol());
      for (std::int32_t c = 0; c < n_; ++c) {
        const std::int64_t first = loop + c * chunk;
        const std::int64_t last = std::min(first + chunk, ends[channel]);
        if (first >= last) break;
        add({.begin = first, .count = last - first, .ring = ring, .start = next(c)});
      }
    }
    begin = ends[channel];
  }
}

// Each channel's walk ends at the part's owner.
void Planner::plan_nccl_scatter() {
  const auto ends = channel_ends(n_);
  for (std::size_t c = 0; c < ends.size(); ++c) add_ring(order_->ring(static_cast<int>(c)));
  for (std::int32_t part = 0; part < n_; ++part) {
    std::int64_t begin = 0;
    for (std::size_t channel = 0; channel < ends.size(); ++channel) {
      add({.begin = begin,
           .count = ends[channel] - begin,
           .part = part,
           .ring = static_cast<std::int32_t>(channel),
           .start = next(place_of(part, channel))});
      begin = ends[channel];
    }
  }
}

RingPlan Planner::plan() {
  const bool adds = job_->op == CollectiveOp::kAllReduce || scatters();
  if (!adds) {
    plan_moves();
  } else if (order_->kind() == ReductionOrder::kRank) {
    plan_rank();
  } else if (order_->kind() == ReductionOrder::kGlooRing) {
    plan_gloo();
  } else if (scatters()) {
    plan_nccl_scatter();
  } else {
    plan_nccl_all_reduce();
  }
  return std::move(plan_);
}

}  // namespace

RingPlan plan_ring(const FlightJob& job, const ReductionOrder& order, std::int64_t chunk) {
  return Planner(job, order, chunk).plan();
}

}  // namespace lockstep::sim
