#include "lockstep/sim/net/links.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/base/check.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::sim {

Links::Kind Links::kind_of(const LinkSpec& spec) {
  LOCKSTEP_CHECK(
      spec.latency_ns >= 0 && spec.jitter_ns >= 0 && spec.gb_per_s >= 0.0,
      fmt::format("a link's latency, jitter and bandwidth are not negative: {} ns, {} ns, {} GB/s",
                  spec.latency_ns,
                  spec.jitter_ns,
                  spec.gb_per_s));
  return {.latency = spec.latency_ns * kPsPerNs,
          .jitter = spec.jitter_ns * kPsPerNs,
          .ps_per_byte = spec.gb_per_s > 0.0 ? 1000.0 / spec.gb_per_s : 0.0};
}

Links::Links(const NetOptions& options, std::int32_t n_ranks)
    : intra_(kind_of(options.intra)),
      inter_(kind_of(options.inter)),
      per_node_(options.ranks_per_node),
      places_(options.places),
      seed_(options.seed),
      ranks_(static_cast<std::size_t>(n_ranks)) {
  if (per_node_ > 0) nodes_.resize(ranks_.size() / static_cast<std::size_t>(per_node_) + 1);
}

// Each port draws from its own stream: what one link does never shifts another's numbers.
std::int64_t Links::draw(const Kind& kind, Port& port, std::size_t stream) const {
  const std::uint64_t word =
      mix64(mix64(seed_ + kGolden64 * (stream + 1)) + kGolden64 * ++port.n_drawn);
  return static_cast<std::int64_t>(word % (static_cast<std::uint64_t>(kind.jitter) + 1));
}

std::int64_t Links::pass(std::int32_t from,
                         std::int32_t to,
                         std::int64_t n_bytes,
                         std::int64_t now) {
  const bool near = same_node(from, to);
  const Kind& kind = near ? intra_ : inter_;
  const auto source = static_cast<std::size_t>(near ? from : node_of(from));
  const auto target = static_cast<std::size_t>(near ? to : node_of(to));
  std::vector<Port>& ports = near ? ranks_ : nodes_;
  Port& out = ports[source];
  Port& in = ports[target];
  const auto span = std::llround(static_cast<double>(n_bytes) * kind.ps_per_byte);
  std::int64_t latency = kind.latency;
  if (kind.jitter > 0) latency += draw(kind, out, near ? source : ranks_.size() + source);
  const std::int64_t start = std::max(now, out.out_free);
  out.out_free = start + span;
  const std::int64_t arrival = std::max(start + latency, in.in_free) + span;
  in.in_free = arrival;
  return arrival;
}

}  // namespace lockstep::sim
