// Requests that are not: what a process sends that makes no sense ends it.
#pragma once

#include <stdexcept>

#include "lockstep/base/check.h"
#include "lockstep/base/error.h"

namespace lockstep::sim {

/// The process does not speak the protocol.
class Nonsense : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename T>
const T& well_formed(const Result<T>& decoded) {
  if (!decoded.ok()) throw Nonsense(decoded.error().message);
  return decoded.value();
}

/// The program that runs there asks for what cannot be: it is given `text` as an answer.
inline void require(bool condition, const std::string& text) {
  if (!condition) throw ContractViolation(text);
}

}  // namespace lockstep::sim
