#include "lockstep/sim/net/outages.h"

#include <algorithm>

namespace lockstep::sim {

namespace {

bool is_in(std::span<const std::int32_t> ranks, std::int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool is_peer(const Outage& outage, std::int32_t rank) {
  return outage.peers.empty() ? !is_in(outage.ranks, rank) : is_in(outage.peers, rank);
}

/// One link that comes up may find the next one down. Endlessly alternating outages are not a link.
template <typename Cuts>
std::optional<std::int64_t> first_gap(std::span<const Outage> outages,
                                      std::int64_t now_ns,
                                      const Cuts& cuts) {
  constexpr int kMaxTurns = 1000;
  std::int64_t time = now_ns;
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    const std::int64_t before = time;
    for (const Outage& outage : outages) {
      if (!cuts(outage)) continue;
      const std::optional<std::int64_t> up = outage.next_up(time);
      if (!up) return std::nullopt;
      time = *up;
    }
    if (time == before) return time;
  }
  return std::nullopt;
}

}  // namespace

bool Outage::separates(std::int32_t a, std::int32_t b) const {
  return (is_in(ranks, a) && is_peer(*this, b)) || (is_in(ranks, b) && is_peer(*this, a));
}

bool Outage::separates(std::span<const std::int32_t> members) const {
  const bool here = std::any_of(
      members.begin(), members.end(), [this](std::int32_t rank) { return is_in(ranks, rank); });
  return here && std::any_of(members.begin(), members.end(), [this](std::int32_t rank) {
           return is_peer(*this, rank);
         });
}

std::optional<std::int64_t> Outage::next_up(std::int64_t now_ns) const {
  if (now_ns < from_ns) return now_ns;
  if (for_ns == 0) return std::nullopt;
  const std::int64_t since = now_ns - from_ns;
  const std::int64_t start = period_ns > 0 ? since / period_ns * period_ns : 0;
  if (period_ns > 0 && for_ns >= period_ns) return std::nullopt;
  return std::max(now_ns, from_ns + start + for_ns);
}

std::optional<std::int64_t> next_up(std::span<const Outage> outages,
                                    std::int32_t a,
                                    std::int32_t b,
                                    std::int64_t now_ns) {
  return first_gap(outages, now_ns, [=](const Outage& outage) { return outage.separates(a, b); });
}

std::optional<std::int64_t> next_up(std::span<const Outage> outages,
                                    std::span<const std::int32_t> members,
                                    std::int64_t now_ns) {
  return first_gap(
      outages, now_ns, [=](const Outage& outage) { return outage.separates(members); });
}

}  // namespace lockstep::sim
