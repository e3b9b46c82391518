// Process groups over TCP with Gloo: what PyTorch uses between processes without GPUs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::gloo {

struct GlooOptions {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::string rendezvous;                     ///< A folder that all ranks see; made when missing.
  std::string host_name = "127.0.0.1";        ///< The address other ranks reach this one at.
  std::chrono::milliseconds timeout{60'000};  ///< Of the rendezvous and of every operation.
  bool check_signatures = true;               ///< Compare what ranks issue before each collective.
  /// After each operation compare what arrived with what was sent (checked_arrivals.h), over
  /// connections of its own. The same on all ranks.
  bool check_arrivals = false;
};

/// The world group of this process. Every operation runs on a thread of the group, in the order of
/// posting; send and recv run in parallel.
///
/// Requires: called once in each of `size` processes (or threads) with the same folder, which no
///     other world uses at the same time; the runtime outlives the group and its works.
/// Errors: here: the rendezvous failed (a rank is missing or there twice, worlds of different
///     sizes, an entry of a process that is gone). Later: a Work's status is kTimedOut, kPeerLost
///     or kMismatch (of signatures, or of what arrived) with Gloo's own text as detail; after the first failure all later operations of
///     the group fail at once, since its connections are closed. So that this can be reported, the
///     process ignores SIGPIPE from here on, unless it has its own handler.
/// Deterministic: all-reduce adds in the order `gloo-ring` (ReductionOrder::kGlooRing).
/// Source: gloo (allreduce.cc and others); PyTorch's ProcessGroupGloo for what is composed.
Result<std::unique_ptr<ProcessGroup>> connect(const GlooOptions& options, Runtime& runtime);

}  // namespace lockstep::gloo
