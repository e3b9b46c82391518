#include "lockstep/harness/crosscheck/bit_flip.h"

#include "lockstep/base/text.h"
#include "lockstep/harness/bugs/bug.h"

namespace lockstep {

Result<BitFlip> parse_bit_flip(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  const auto rank = parse_int(parts[0]);
  const auto step = parts.size() == 3 ? parse_int(parts[1]) : std::nullopt;
  if (!rank || !step || parts[2].empty()) {
    return Error{"invalid bit '" + std::string(text) + "'; write RANK:STEP:TENSOR", {}};
  }
  return BitFlip{static_cast<std::int32_t>(*rank), *step, std::string(parts[2])};
}

std::unique_ptr<LoopHook> make_bit_flip(const BitFlip& flip) {
  return make_bug(bug::FlipBit{.tensor = flip.tensor},
                  {.step = flip.step, .micro = 0, .event = LoopPoint::kBackward});
}

}  // namespace lockstep
