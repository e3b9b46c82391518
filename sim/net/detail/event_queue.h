// Events in order of time; equal times in the order they were pushed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::sim {

class Flight;

/// A heap of buckets: events of one moment that are pushed one after another share a bucket and
/// cost no comparison, which is what the rounds of a collective on equal links are.
class EventQueue {
 public:
  struct Event {
    Flight* flight = nullptr;
    std::int32_t token = 0;
    std::int32_t hop = 0;
  };

  void push(std::int64_t time, const Event& event) {
    const std::int32_t node = take_node(event);
    if (last_ >= 0 && last_time_ == time) {
      Bucket& bucket = buckets_[static_cast<std::size_t>(last_)];
      nodes_[static_cast<std::size_t>(bucket.tail)].next = node;
      bucket.tail = node;
      return;
    }
    last_ = take_bucket({node, node});
    last_time_ = time;
    heap_.push_back({time, n_buckets_made_++, last_});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }

  bool empty() const { return heap_.empty(); }

  /// Requires: not empty.
  std::int64_t next_time() const { return heap_.front().time; }

  const Event& next() const { return nodes_[static_cast<std::size_t>(head())].event; }

  /// Requires: not empty.
  Event pop() {
    const std::int32_t index = heap_.front().bucket;
    Bucket& bucket = buckets_[static_cast<std::size_t>(index)];
    const std::int32_t node = bucket.head;
    const Event event = nodes_[static_cast<std::size_t>(node)].event;
    bucket.head = nodes_[static_cast<std::size_t>(node)].next;
    free_nodes_.push_back(node);
    if (bucket.head >= 0) return event;
    free_buckets_.push_back(index);
    if (last_ == index) last_ = -1;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
    return event;
  }

 private:
  struct Node {
    Event event;
    std::int32_t next = -1;
  };

  struct Bucket {
    std::int32_t head = -1;
    std::int32_t tail = -1;
  };

  struct Entry {
    std::int64_t time;
    std::uint64_t number;  // Order of creation.
    std::int32_t bucket;
  };

  static bool is_later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  std::int32_t head() const {
    return buckets_[static_cast<std::size_t>(heap_.front().bucket)].head;
  }

  std::int32_t take_node(const Event& event) {
    if (free_nodes_.empty()) {
      nodes_.push_back({event, -1});
      return static_cast<std::int32_t>(nodes_.size()) - 1;
    }
    const std::int32_t node = free_nodes_.back();
    free_nodes_.pop_back();
    nodes_[static_cast<std::size_t>(node)] = {event, -1};
    return node;
  }

  std::int32_t take_bucket(const Bucket& bucket) {
    if (free_buckets_.empty()) {
      buckets_.push_back(bucket);
      return static_cast<std::int32_t>(buckets_.size()) - 1;
    }
    const std::int32_t index = free_buckets_.back();
    free_buckets_.pop_back();
    buckets_[static_cast<std::size_t>(index)] = bucket;
    return index;
  }

  std::vector<Entry> heap_;
  std::vector<Bucket> buckets_;
  std::vector<std::int32_t> free_buckets_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> free_nodes_;
  std::uint64_t n_buckets_made_ = 0;
  std::int32_t last_ = -1;  // The bucket that was pushed to last, if it is still there.
  std::int64_t last_time_ = 0;
};

}  // namespace lockstep::sim
