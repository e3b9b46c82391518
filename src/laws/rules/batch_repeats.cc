#include "lockstep/laws/rules/detail/samples/batch_repeats.h"

namespace lockstep::laws {

std::optional<std::int64_t> n_repeats(std::span<const std::uint64_t> digests) {
  const auto end_of_run = [&](std::size_t begin) {
    std::size_t end = begin;
    while (end < digests.size() && digests[end] == digests[begin]) ++end;
    return end;
  };
  if (digests.empty()) return std::nullopt;
  const std::size_t n = end_of_run(0);
  if (n < 2 || digests.size() < 2 * n) return std::nullopt;
  for (std::size_t begin = n; begin < digests.size();) {
    const std::size_t end = end_of_run(begin);
    // The last one may have been cut short.
    if (end != begin + n && (end != digests.size() || end > begin + n)) return std::nullopt;
    begin = end;
  }
  return static_cast<std::int64_t>(n);
}

}  // namespace lockstep::laws
