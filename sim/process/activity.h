// What the kernel knows of a process that sends nothing: does it run, or does it sleep, and in what?
#pragma once

#include <cstdint>

namespace lockstep::sim {

/// One look at all threads of a process and of its descendants.
struct Activity {
  bool known = false;   ///< False: it is gone, or /proc does not say.
  bool asleep = false;  ///< Not one of them runs or waits for a disk.
  /// Each waits for another thread, without a time limit (a futex): only one that shares its memory
  /// can wake it, and the ranks of a job share memory with each other at most.
  bool needs_a_thread = false;
  std::uint64_t n_switches = 0;  ///< How often they have run: equal in two looks, none has since.
};

/// Whether nothing has run between two looks.
inline bool slept_through(const Activity& before, const Activity& after) {
  return before.known && after.known && before.asleep && after.asleep &&
         before.n_switches == after.n_switches;
}

/// Source: proc(5): /proc/PID/task/TID/{stat,status,syscall,children}.
Activity look_at(int pid);

}  // namespace lockstep::sim
