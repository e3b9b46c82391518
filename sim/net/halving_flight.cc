#include "lockstep/sim/net/detail/halving_flight.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

namespace {

constexpr std::int32_t kOperand = 0;  // A hop that brings what is added...
constexpr std::int32_t kResult = 1;   // ... or what came out.

}  // namespace

HalvingFlight::HalvingFlight(Network& network, FlightClient& client, const FlightJob& job)
    : Flight(network, client, job), arithmetic_(job, false), own_items_(n_members()) {
  result_.resize(static_cast<std::size_t>(job.count * elem_bytes()));
  const auto n = static_cast<std::int64_t>(n_members());
  const std::int64_t piece = chunk_elems();
  const std::int64_t segment = piece >= job.count ? job.count : std::min(job.count, piece * n);
  for (std::int64_t begin = 0; begin < job.count; begin += segment) {
    plan(begin, std::min(segment, job.count - begin));
  }
  link();
  for (std::size_t m = 0; m < own_items_.size(); ++m) {
    expect(static_cast<std::int32_t>(m), static_cast<std::int64_t>(own_items_[m].size()));
  }
}

// Blocks of 1, 2, 4, ... members merge with their neighbours until one is left.
void HalvingFlight::plan(std::int64_t begin, std::int64_t count) {
  std::vector<Items> blocks;
  for (std::size_t m = 0; m < n_members(); ++m) {
    const auto index = static_cast<std::int32_t>(items_.size());
    items_.push_back(
        {.begin = begin, .count = count, .holder = static_cast<std::int32_t>(m), .n_missing = 1});
    own_items_[m].push_back(index);
    blocks.push_back({index});
  }
  while (blocks.size() > 1) {
    std::vector<Items> merged;
    for (std::size_t b = 0; b + 1 < blocks.size(); b += 2) {
      merged.push_back(merge_blocks(blocks[b], blocks[b + 1]));
    }
    if (blocks.size() % 2 == 1) merged.push_back(std::move(blocks.back()));
    blocks = std::move(merged);
  }
}

// Both lists cover the same range, perhaps cut in different places.
HalvingFlight::Items HalvingFlight::merge_blocks(const Items& left, const Items& right) {
  Items merged;
  std::size_t l = 0;
  std::size_t r = 0;
  std::int64_t at = item(left[0]).begin;
  while (l < left.size() && r < right.size()) {
    const std::int64_t left_end = item(left[l]).begin + item(left[l]).count;
    const std::int64_t right_end = item(right[r]).begin + item(right[r]).count;
    const std::int64_t end = std::min(left_end, right_end);
    split_overlap({left[l], right[r], at, end}, merged);
    if (left_end == end) ++l;
    if (right_end == end) ++r;
    at = end;
  }
  return merged;
}

// The left one keeps the lower half.
void HalvingFlight::split_overlap(const Overlap& overlap, Items& merged) {
  const std::int64_t middle = overlap.begin + (overlap.end - overlap.begin) / 2;
  if (middle > overlap.begin) {
    merged.push_back(add_half(overlap, overlap.begin, middle, true));
  }
  merged.push_back(add_half(overlap, middle, overlap.end, false));
}

std::int32_t HalvingFlight::add_half(const Overlap& overlap,
                                     std::int64_t begin,
                                     std::int64_t end,
                                     bool lower) {
  const std::int32_t keeper = lower ? overlap.left : overlap.right;
  const std::int32_t sender = lower ? overlap.right : overlap.left;
  items_.push_back({.begin = begin,
                    .count = end - begin,
                    .holder = item(keeper).holder,
                    .partner = item(sender).holder,
                    .is_left = lower,
                    .below = keeper,
                    .other_below = sender});
  ++item(keeper).n_unreturned;
  ++item(sender).n_unreturned;
  return static_cast<std::int32_t>(items_.size()) - 1;
}

// Gives each item the list of what becomes of it.
void HalvingFlight::link() {
  std::int32_t n = 0;
  for (Item& item : items_) {
    item.first_half = n;
    n += item.n_unreturned;
  }
  halves_.resize(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].below < 0) continue;
    const auto index = static_cast<std::int32_t>(i);
    Item& below = item(items_[i].below);
    next_half(below) = {index, true};
    next_half(item(items_[i].other_below)) = {index, false};
  }
}

void HalvingFlight::on_post(std::int32_t member) {
  std::byte* own = output(member, 0, 0);
  arithmetic_.begin(own, input(member, 0, 0), job().count);
  for (const std::int32_t index : own_items_[static_cast<std::size_t>(member)])
    operand_arrived(index);
  process_queues();
}

void HalvingFlight::on_arrival(std::int32_t token, std::int32_t hop) {
  if (hop == kOperand) {
    operand_arrived(token);
  } else {
    const Item& source = item(token);
    copy_elems(output(source.partner, 0, source.begin),
               result_.data() + source.begin * elem_bytes(),
               source.count);
    result_returned(source.other_below);
  }
  process_queues();
}

void HalvingFlight::process_queues() {
  for (;;) {
    if (!ready_.empty()) {
      const std::int32_t index = ready_.back();
      ready_.pop_back();
      on_operands_complete(index);
    } else if (!final_.empty()) {
      const std::int32_t index = final_.back();
      final_.pop_back();
      on_result_complete(index);
    } else {
      return;
    }
  }
}

// The sender's operand is still in its output: its result comes back only after this.
void HalvingFlight::operand_arrived(std::int32_t index) {
  if (--item(index).n_missing == 0) ready_.push_back(index);
}

void HalvingFlight::combine(const Item& item) {
  std::byte* own = output(item.holder, 0, item.begin);
  const std::byte* other = output(item.partner, 0, item.begin);
  if (item.is_left) {
    arithmetic_.merge(own, own, other, item.count);
  } else {
    arithmetic_.merge(own, other, own, item.count);
  }
}

void HalvingFlight::on_operands_complete(std::int32_t index) {
  const Item& ready = item(index);
  if (ready.partner >= 0) combine(ready);
  if (ready.n_halves == 0) {
    std::byte* own = output(ready.holder, 0, ready.begin);
    arithmetic_.finish(own, ready.count);
    copy_elems(result_.data() + ready.begin * elem_bytes(), own, ready.count);
    final_.push_back(index);
    return;
  }
  const auto halves = std::span(halves_).subspan(static_cast<std::size_t>(ready.first_half),
                                                 static_cast<std::size_t>(ready.n_halves));
  for (const Half& half : halves) {
    if (half.kept) continue;
    const Item& target = item(half.item);
    send(ready.holder, target.holder, target.count, {this, half.item, kOperand});
  }
  for (const Half& half : halves) {
    if (half.kept) operand_arrived(half.item);
  }
}

// The holder has the result of all of it: so does, soon, the member it came from.
void HalvingFlight::on_result_complete(std::int32_t index) {
  const Item& done = item(index);
  if (done.partner < 0) return happened(done.holder);
  send(done.holder, done.partner, done.count, {this, index, kResult});
  result_returned(done.below);
}

void HalvingFlight::result_returned(std::int32_t index) {
  if (--item(index).n_unreturned == 0) final_.push_back(index);
}

}  // namespace lockstep::sim
