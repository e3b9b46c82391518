#include "lockstep/harness/explore/parts/shard.h"

#include "lockstep/base/text.h"

namespace lockstep::explore {

Result<Shard> parse_shard(std::string_view text) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto number = parse_int(text.substr(0, slash));
    const auto count = parse_int(text.substr(slash + 1));
    if (number && count && *number >= 1 && *number <= *count && *count <= kMost) {
      return Shard{static_cast<std::uint64_t>(*number), static_cast<std::uint64_t>(*count)};
    }
  }
  return Error{"'" + printable(text) + "' is not a shard; 1/8 is the first of eight", {}};
}

std::string text_of(const Shard& shard) {
  return std::to_string(shard.number) + "/" + std::to_string(shard.count);
}

}  // namespace lockstep::explore
