// Contracts that stay on in release builds: a broken one is a bug in the calling code, not input.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/base/call_site.h"

namespace lockstep {

/// A contract of the library was broken by the code that called it.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;

  /// Of a call that the program makes at `site`: "train.cc:12: ..." if the place is known.
  ContractViolation(const std::string& text, const CallSite& site)
      : std::logic_error(site.known() ? site.text() + ": " + text : text),
        says_where_(site.known()) {}

  /// Whether it says at which line of the program.
  bool says_where() const { return says_where_; }

 private:
  bool says_where_ = false;
};

/// Throws what is being handled, `refused`, with the program's place before it.
[[noreturn]] void rethrow_at(const CallSite& site, const ContractViolation& refused);

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
