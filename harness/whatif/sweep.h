// Settings to try, and all their combinations.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/format/load.h"

namespace lockstep {

/// One key of a scenario and the values to try for it.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;  ///< As `--set` takes them.
};

/// "ddp.bucket_cap_mb=1,5,25": commas within brackets, braces and quotes are part of a value.
/// Errors: no equals sign, no key, an empty value, a bracket that is not closed.
Result<SweptKey> parse_swept(std::string_view text);

/// As many combinations as a sweep may have.
inline constexpr std::size_t kMostCombinations = 10'000;

/// One value of each key, in every combination; the last key changes fastest.
/// Errors: the same key twice; more than kMostCombinations.
Result<std::vector<std::vector<Setting>>> combinations(const std::vector<SweptKey>& keys);

}  // namespace lockstep
