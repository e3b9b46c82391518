// How processes that share a folder agree on who they are, before they connect.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::peers {

/// Makes `folder` the rendezvous of one world and waits for rank 0.
///
/// Rank 0 writes an entry with a fresh name of the session; the others wait for an entry whose
/// process is alive, so that what an earlier run left behind is never taken for today's. Each rank
/// then signs in under the session with its number.
///
/// Returns: the folder of this session, which holds nothing of an earlier one.
/// Errors: no rank 0 within the timeout (or only one whose process is gone), a different world size
///     than rank 0's, a second process with this rank's number, a folder that cannot be written.
Result<std::string> join_session(const std::string& folder,
                                 std::int32_t rank,
                                 std::int32_t size,
                                 std::chrono::milliseconds timeout);

/// "process 4711" when the one that signed in as `rank` is known to be gone, else empty: it lives,
/// runs on another machine, or has not joined.
std::string exited_process(const std::string& session, std::int32_t rank);

}  // namespace lockstep::peers
