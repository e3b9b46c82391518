#include "lockstep/sim/process/interrupts.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

// A handler is given nothing but the signal.  NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t written_by_handler = -1;

void on_signal(int number) {
  const int before = errno;
  const auto byte = static_cast<char>(number);
  const ssize_t ignored = ::write(written_by_handler, &byte, 1);  // Full: one is known already.
  (void)ignored;
  errno = before;
}

}  // namespace

Interrupts::Interrupts(bool take_over) {
  if (!take_over) return;
  LOCKSTEP_CHECK(written_by_handler < 0, "signals of this process are taken over already");
  int ends[2] = {-1, -1};
  LOCKSTEP_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "no descriptors are left for a pipe");
  read_end_ = ends[0];
  write_end_ = ends[1];
  written_by_handler = write_end_;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, &before_int_);
  ::sigaction(SIGTERM, &action, &before_term_);
}

Interrupts::~Interrupts() {
  if (read_end_ < 0) return;
  ::sigaction(SIGINT, &before_int_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
  written_by_handler = -1;
  ::close(read_end_);
  ::close(write_end_);
}

int Interrupts::signal() {
  char byte = 0;
  if (signal_ == 0 && read_end_ >= 0 && ::read(read_end_, &byte, 1) == 1)
    signal_ = static_cast<unsigned char>(byte);
  return signal_;
}

}  // namespace lockstep::sim
