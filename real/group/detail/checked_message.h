// Messages that carry the digest of what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/real/group/connection.h"

namespace lockstep::peers {

std::size_t bytes_of(const Memory& memory);

/// Of its bits; 0 for no elements.
std::uint64_t digest_of(const Memory& memory);

/// Starts a send or a recv on `connection` whose message ends with its digest. What is received is
/// in the operation's memory once it was waited for, also when it is not what was sent.
/// Requires: sender and receiver both use it.
std::unique_ptr<Connection::Message> start_checked_message(Connection& connection,
                                                           const Operation& operation,
                                                           const Membership& member);

}  // namespace lockstep::peers
