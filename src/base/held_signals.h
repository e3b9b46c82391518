// Signals that wait until files are whole.
#pragma once

#include <csignal>

namespace lockstep {

/// Holds back the signals by which a user ends a process (INT, TERM, HUP) as long as it lives: no temporary file is left
/// behind, and of several files that belong together all are there or none. What came meanwhile takes effect at its end.
/// Holds them back from this thread: one that starts others must not have them write.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t ends{};
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }

  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  HeldSignals(HeldSignals&&) = delete;
  HeldSignals& operator=(HeldSignals&&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lockstep
