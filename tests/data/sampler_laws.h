// What a distributed sampler promises, judged from the streams of all ranks alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

using Indices = std::vector<std::int64_t>;

/// What all ranks yielded in one epoch over `size` samples.
struct Epoch {
  std::int64_t size = 0;
  bool drop_last = false;
  std::vector<Indices> streams;  ///< One per rank.
};

/// The streams dealt back into one order: entry k of rank r at place k * N + r.
inline Indices interleaved(const Epoch& epoch) {
  Indices order;
  for (std::size_t k = 0; k < epoch.streams.front().size(); ++k) {
    for (const Indices& stream : epoch.streams) order.push_back(stream.at(k));
  }
  return order;
}

/// Returns: the first law that is broken, or an empty text.
inline std::string broken_law(const Epoch& epoch) {
  const auto n = static_cast<std::size_t>(epoch.size);
  const std::size_t replicas = epoch.streams.size();
  const std::size_t length = epoch.streams.front().size();
  for (const Indices& stream : epoch.streams) {
    if (stream.size() != length) return "equal lengths";
    for (const std::int64_t index : stream) {
      if (index < 0 || index >= epoch.size) return "indices in range";
    }
  }
  const std::size_t total = length * replicas;
  if (epoch.drop_last ? total > n || n - total >= replicas : total < n || total - n >= replicas) {
    return "padding bound";
  }
  // Without its padding the order holds nothing twice: ranks are disjoint.
  const Indices order = interleaved(epoch);
  const std::size_t unpadded = std::min(total, n);
  std::vector<int> seen(n, 0);
  for (std::size_t place = 0; place < unpadded; ++place) {
    if (++seen[static_cast<std::size_t>(order[place])] > 1) return "disjoint";
  }
  if (!epoch.drop_last && std::count(seen.begin(), seen.end(), 0) > 0) return "cover";
  for (std::size_t place = n; place < total; ++place) {
    if (order[place] != order[place % n]) return "padding repeats the beginning";
  }
  return "";
}

}  // namespace lockstep::data
