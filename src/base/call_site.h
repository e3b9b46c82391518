// Where in the user's source a call was made, captured by a default argument.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A place in source code. Evidence for a human, never part of what must match between ranks.
///
/// Both strings must outlive the run (string literals, or names interned by the world).
struct CallSite {
  const char* file = "";
  std::int32_t line = 0;
  const char* scope = "";  ///< A named region such as "ddp.backward", or empty.

  bool known() const { return *file != '\0'; }

  /// "file:line", or nothing where the place is not known.
  std::string text() const { return known() ? file + (":" + std::to_string(line)) : std::string(); }

  /// The place of the caller. Usage: `void f(CallSite site = CallSite::here())`.
  static constexpr CallSite here(const char* file = __builtin_FILE(),
                                 std::int32_t line = __builtin_LINE()) {
    return {file, line, ""};
  }
};

}  // namespace lockstep
