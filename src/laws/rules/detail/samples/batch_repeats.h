// Batches of a stream that come several times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::laws {

/// How often each batch comes, one after the other, where each comes as often: as where several workers of a loader
/// read one stream, each of them all of it. None where each comes once, or all are alike.
std::optional<std::int64_t> n_repeats(std::span<const std::uint64_t> digests);

}  // namespace lockstep::laws
