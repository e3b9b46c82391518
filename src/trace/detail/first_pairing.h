// The one line of a hang's explanation that a finding may already contain.
#pragma once

#include <string_view>

namespace lockstep {

/// How the line begins that names the first pairing of different calls in a group. Reports leave it
/// out where law collectives-match reports that pairing.
inline constexpr std::string_view kFirstPairing = "first pairing of different calls in group ";

}  // namespace lockstep
