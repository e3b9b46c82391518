// NCCL and CUDA, emulated on the CPU: ranks are threads of this process, device memory is memory.
//
// It implements nccl::Api in tests. Streams, events and communicators are asynchronous as the
// real ones are: what is queued happens later, on a thread of the emulation; a call on a
// communicator answers kInProgress a few times before anything is queued (a split answers kSuccess and
// leaves it to the next question), and until then it refuses the next call; a collective waits for
// all its members and a send for its receive, forever if need be. Reductions go around a ring step
// by step. Like NCCL, it does not compare what ranks ask for: if sizes differ it hangs (NCCL may, on an
// H200 it was silently wrong), if only operations differ it silently computes garbage.
//
// Nothing that passes here was run on a GPU; what was, gpu/recordings says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/gpu/nccl/api.h"

namespace lockstep::testing {

struct EmulationOptions {
  std::vector<std::int32_t> ring = {};  ///< Of every communicator of that size; empty: ascending.
  std::int32_t polls = 2;               ///< How often a call is kInProgress.
  std::string version_mismatch = {};    ///< Of header and library.
  std::map<std::int32_t, std::int32_t> versions = {};      ///< By rank, where not 22809.
  std::map<std::int32_t, nccl::Status> failing_init = {};  ///< By rank: how joining ends.
};

class Machine;  // What happens inside.

/// One emulated computer.
class Emulation {
 public:
  explicit Emulation(EmulationOptions options = {});
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;
  Emulation(Emulation&&) = delete;
  Emulation& operator=(Emulation&&) = delete;

  /// The table of the process that is `rank`.
  std::shared_ptr<nccl::Api> gpu(std::int32_t rank) const;

  // -- what goes wrong
  /// Collectives and messages that are queued from now on never end.
  void hang();
  /// From now on the communicators of `rank` report an asynchronous error.
  void fail(std::int32_t rank, nccl::Status error);

  /// What is queued on the default stream of `rank` waits from now on, or continues.
  void hold_compute(std::int32_t rank, bool held);

  // -- what happened
  std::int32_t n_aborted(std::int32_t rank) const;    ///< Communicators, by ncclCommAbort.
  std::int32_t n_destroyed(std::int32_t rank) const;  ///< By ncclCommDestroy.
  std::int32_t n_collectives() const;                 ///< Done, of all communicators.
  /// Streams of `rank` at whose head something waits: for an event, or for other ranks.
  std::int32_t n_waiting(std::int32_t rank) const;
  /// Whether an operation waits in a stream of `rank` and its call has returned: an event has been
  /// recorded after it.
  bool is_under_way(std::int32_t rank) const;
  std::int64_t bytes_allocated() const;
  std::int32_t n_handles() const;  ///< Streams and events that exist.

 private:
  std::shared_ptr<Machine> machine_;
};

}  // namespace lockstep::testing
