// Refuses arguments of optimizers in PyTorch's words.
#pragma once

#include <stdexcept>
#include <string>

#include "lockstep/base/text.h"

namespace lockstep::optim::detail {

/// Requires `ok`, which a NaN makes false. `what`: "learning rate", "epsilon value".
inline void check_argument(bool ok, const std::string& what, double value) {
  if (!ok) throw std::invalid_argument("Invalid " + what + ": " + exact(value));
}

}  // namespace lockstep::optim::detail
