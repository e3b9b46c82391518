// The sentence of a finding, whole or as a line of a block.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/laws/finding.h"

namespace lockstep::laws {

struct FindingStyle {
  std::size_t n_alike = 0;  ///< Further tensors of which the same holds.
  bool cause = true;        ///< Ends with the likely cause.
  bool brief = false;       ///< Leaves out call sites that the message names.
};

std::string finding_text(const Finding& finding, const FindingStyle& style);

/// "REPLICAS-EQUAL"
std::string law_in_capitals(const std::string& law);

}  // namespace lockstep::laws
