#include "lockstep/real/launch/port.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::launch {

namespace {

// Binds a socket to `port` (0: any) for a moment.
Result<std::int32_t> try_port(std::int32_t port) {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return Error{std::string("no socket: ") + strerrordesc_np(errno), {}};
  const int on = 1;  // Connections of an earlier run that fade out do not count.
  setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      bind(handle, generic, length) == 0 && getsockname(handle, generic, &length) == 0;
  const int reason = errno;
  close(handle);
  if (!bound) {
    return Error{"port " + std::to_string(port) + " cannot be used: " + strerrordesc_np(reason) +
                     "; choose another with --master-port, or any with --standalone",
                 {}};
  }
  return static_cast<std::int32_t>(ntohs(address.sin_port));
}

}  // namespace

Result<std::int32_t> free_port() { return try_port(0); }

Outcome check_port(std::int32_t port) {
  const Result<std::int32_t> bound = try_port(port);
  if (!bound.ok()) return bound.error();
  return success();
}

}  // namespace lockstep::launch
