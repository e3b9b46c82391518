// Calls that a program makes into the library: what happens inside of them is said to be at its line.
#pragma once

#include <utility>

#include "lockstep/base/call_site.h"
#include "lockstep/base/check.h"
#include "lockstep/tensor/runtime.h"

namespace lockstep {

/// For as long as it lives, the rank's runtime knows that the program is at `site`. Calls nest; a
/// place that is not known leaves the outer one.
class UserCall {
 public:
  /// Requires: `runtime` and `site` outlive it.
  UserCall(Runtime& runtime, const CallSite& site)
      : runtime_(&runtime), before_(runtime.call_site()) {
    if (site.known()) runtime.set_call_site(&site);
  }

  ~UserCall() { runtime_->set_call_site(before_); }

  UserCall(const UserCall&) = delete;
  UserCall& operator=(const UserCall&) = delete;
  UserCall(UserCall&&) = delete;
  UserCall& operator=(UserCall&&) = delete;

 private:
  Runtime* runtime_;
  const CallSite* before_;
};

/// Serves a call that the program makes at `site`.
/// Returns: what `serve` returns.
/// Errors: a ContractViolation says the place first, "train.cc:12: ...", unless it does already.
template <typename Serve>
decltype(auto) user_call(Runtime& runtime, const CallSite& site, Serve&& serve) {
  const UserCall call(runtime, site);
  try {
    return std::forward<Serve>(serve)();
  } catch (const ContractViolation& refused) {
    rethrow_at(site, refused);
  }
}

}  // namespace lockstep
