// Contracts that stay on in release builds: a broken one is a bug in the calling code, not input.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// A contract of the library was broken by the code that called it.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws ContractViolation with "file:line: condition: message".
[[noreturn]] void fail_check(const char* condition,
                             const char* file,
                             int line,
                             std::string_view message);

}  // namespace lockstep

/// Always on, release builds included. `message` is evaluated only on failure.
#define LOCKSTEP_CHECK(condition, message) \
  (static_cast<bool>(condition)            \
       ? void(0)                           \
       : ::lockstep::fail_check(#condition, __FILE__, __LINE__, (message)))
