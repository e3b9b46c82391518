// The members of a group, connected by Gloo.
#pragma once

#include <memory>
#include <string>

#include "lockstep/real/group/connection.h"

namespace lockstep::gloo {

/// `host_name` is the address at which the others reach this process.
Result<std::shared_ptr<peers::Connection>> open_connection(const peers::Membership& member,
                                                           const std::string& host_name);

}  // namespace lockstep::gloo
