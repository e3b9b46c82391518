// How a collective ended, and the exception that carries it where a value cannot travel.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/base/enum_names.h"
#include "lockstep/trace/event.h"

namespace lockstep {

/// How a collective ended, as one rank saw it. A misfortune is data, not a C++ error: the same
/// values come back from the simulator, Gloo and NCCL, and the reducer must handle each of them.
enum class CommStatus : std::uint8_t {
  kOk,
  kTimedOut,  ///< The deadline passed on this rank's clock.
  kPeerLost,  ///< A participating rank is known to have died.
  kMismatch,  ///< Ranks disagree on the signature.
  kAborted,   ///< This rank called abort(), or the run is being torn down.
  kStuck,     ///< Proved: the other side will never post (simulator).
};
template <>
inline constexpr EnumNames<6> kEnumNames<CommStatus> = {
    "ok", "timed_out", "peer_lost", "mismatch", "aborted", "stuck"};

/// As events have it.
constexpr CallStatus call_status(CommStatus status) {
  return static_cast<CallStatus>(static_cast<std::uint8_t>(status) + 1);
}

static_assert(name_of(call_status(CommStatus::kOk)) == name_of(CommStatus::kOk));
static_assert(name_of(call_status(CommStatus::kStuck)) == name_of(CommStatus::kStuck));

/// Thrown by DDP, optimizers and the front door: a status cannot travel through `loss.backward()`.
class CommError : public std::runtime_error {
 public:
  CommError(CommStatus status, const Signature& signature, const std::string& detail);

  CommStatus status() const { return status_; }

  const Signature& signature() const { return signature_; }

  const CallSite& site() const { return signature_.site; }

 protected:
  /// With `text` as it stands.
  struct Verbatim {
    std::string text;
  };

  CommError(CommStatus status, const Signature& signature, const Verbatim& verbatim)
      : std::runtime_error(verbatim.text), status_(status), signature_(signature) {}

 private:
  CommStatus status_;
  Signature signature_;
};

}  // namespace lockstep
