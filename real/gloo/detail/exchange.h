// Parts that go from rank to rank at once, for the collectives Gloo does not have in the form
// needed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gloo/context.h>
#include <vector>

namespace lockstep::gloo {

/// Memory that goes to or comes from one peer.
struct Part {
  std::int32_t peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Wire addresses that Gloo's own collectives do not use (they keep the upper 16 bits free).
std::uint64_t exchange_slot(std::uint32_t tag);
std::uint64_t message_slot(std::int32_t tag);

/// Sends and receives all parts; empty ones are left out on both sides, a rank's part for itself is
/// copied.
/// Requires: sizes agree between the ranks.
/// Errors: those of Gloo, as exceptions.
void exchange(::gloo::Context& context,
              const std::vector<Part>& sends,
              const std::vector<Part>& recvs,
              std::uint32_t tag,
              std::chrono::milliseconds timeout);

}  // namespace lockstep::gloo
