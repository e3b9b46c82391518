#include "lockstep/comm/comm_status.h"

namespace lockstep {

namespace {

std::string describe(CommStatus status, const Signature& signature, const std::string& detail) {
  std::string text(name_of(signature.op));
  text += " of " + std::to_string(signature.count) + " " + std::string(name_of(signature.dtype));
  if (signature.site.known()) {
    text += " at " + std::string(signature.site.file) + ":" + std::to_string(signature.site.line);
  }
  if (*signature.site.scope != '\0') text += " in " + std::string(signature.site.scope);
  text += ": " + std::string(name_of(status));
  if (!detail.empty()) text += ": " + detail;
  return text;
}

}  // namespace

CommError::CommError(CommStatus status, const Signature& signature, const std::string& detail)
    : std::runtime_error(describe(status, signature, detail)),
      status_(status),
      signature_(signature) {}

}  // namespace lockstep
