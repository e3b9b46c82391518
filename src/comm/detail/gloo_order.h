// How Gloo's ring cuts a buffer.
#pragma once

#include <cstdint>

namespace lockstep::detail {

/// Elements that one rank owns in Gloo's ring over `count` elements.
///
/// Source: gloo/allreduce.cc, ring(): segments of at most 1 MiB, at least two per rank.
std::int64_t gloo_ring_chunk(std::int64_t count, std::int64_t elem_bytes, std::int64_t n_ranks);

}  // namespace lockstep::detail
