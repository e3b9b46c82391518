// SIGINT and SIGTERM while processes are served: they end the run, not this process.
#pragma once

#include <csignal>

namespace lockstep::sim {

/// Takes both signals over while it lives. One at a time in a process.
class Interrupts {
 public:
  /// `take_over` false: it never notices one.
  explicit Interrupts(bool take_over);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  Interrupts(Interrupts&&) = delete;
  Interrupts& operator=(Interrupts&&) = delete;

  /// Readable once one has come; -1: none will.
  int descriptor() const { return read_end_; }

  /// The first that has come, 0: none.
  int signal();

 private:
  int read_end_ = -1;
  int write_end_ = -1;
  int signal_ = 0;
  struct sigaction before_int_ = {};
  struct sigaction before_term_ = {};
};

}  // namespace lockstep::sim
