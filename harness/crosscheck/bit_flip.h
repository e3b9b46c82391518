// One bit of one contribution, flipped on purpose: what shows that a cross-check sees single bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

/// The lowest bit of the first element of what one rank's backward adds to one tensor's gradient.
struct BitFlip {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::string tensor;
};

/// "RANK:STEP:TENSOR". Errors: anything else.
Result<BitFlip> parse_bit_flip(std::string_view text);

/// Flips it where and when `flip` says.
/// Requires: on the rank that it names.
/// Errors: ContractViolation when the model has no such parameter.
std::unique_ptr<LoopHook> make_bit_flip(const BitFlip& flip);

}  // namespace lockstep
