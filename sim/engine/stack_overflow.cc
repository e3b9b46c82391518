#include "lockstep/sim/engine/detail/stack_overflow.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "lockstep/sim/engine/engine.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kAlternateBytes = std::size_t{64} << 10U;
constexpr std::uintptr_t kFirstPage = 4096;  // Members of what a null pointer points to.

/// A line that is put together without a heap.
class SignalLine {
 public:
  SignalLine& add(std::string_view text) {
    const std::size_t n = std::min(text.size(), letters_.size() - n_);
    std::memcpy(letters_.data() + n_, text.data(), n);
    n_ += n;
    return *this;
  }

  SignalLine& add(std::uint64_t number) {
    std::array<char, 24> digits{};
    auto* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }

  void print() const {
    const char* next = letters_.data();
    for (std::size_t left = n_; left > 0;) {
      const ssize_t n = write(STDERR_FILENO, next, left);
      if (n <= 0) return;
      next += n;
      left -= static_cast<std::size_t>(n);
    }
  }

 private:
  std::array<char, 400> letters_{};
  std::size_t n_ = 0;
};

[[noreturn]] void end_overflow(std::int32_t rank, std::size_t bytes) {
  SignalLine()
      .add("lockstep: rank ")
      .add(static_cast<std::uint64_t>(rank))
      .add(" overflowed its stack of ")
      .add(bytes)
      .add(
          " bytes: it recurses deeply, or keeps large arrays in its frames; raise "
          "RunOptions::stack_bytes\n")
      .print();
  _exit(EXIT_FAILURE);  // Below the rank boundary: nothing can be unwound on such a stack.
}

void print_fault(std::int32_t rank, const void* address) {
  SignalLine()
      .add("lockstep: rank ")
      .add(static_cast<std::uint64_t>(rank))
      .add(" accessed invalid memory at address ")
      .add(reinterpret_cast<std::uintptr_t>(address))
      .add(reinterpret_cast<std::uintptr_t>(address) < kFirstPage
               ? ": a null pointer, such as the group that split() and new_group() return to ranks "
                 "outside of it\n"
               : "\n")
      .print();
}

/// Where the stack ended at the fault; 0 where that is not known.
std::uintptr_t stack_pointer([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  const auto* at = static_cast<const ucontext_t*>(context);
  return static_cast<std::uintptr_t>(at->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.sp);
#else
  return 0;
#endif
}

}  // namespace

/// The stacks of this thread's engines, where a signal handler finds them.
class OverflowHandler {
 public:
  OverflowHandler() {
    stack_t present{};
    sigaltstack(nullptr, &present);
    has_stack_ = (present.ss_flags & SS_DISABLE) == 0;  // Of a runtime's own: it serves as well.
    if (has_stack_) return;
    memory_ =
        mmap(nullptr, kAlternateBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;
    const stack_t own{.ss_sp = memory_, .ss_flags = 0, .ss_size = kAlternateBytes};
    has_stack_ = sigaltstack(&own, nullptr) == 0;
  }

  // Also when a rank calls exit(), on that rank's stack: everything after this would free memory
  // that is in use.
  ~OverflowHandler() {
    if (inside_fiber()) {
      std::fflush(nullptr);
      SignalLine()
          .add("lockstep: a rank called exit(): a rank ends by returning, or by an exception\n")
          .print();
      _exit(EXIT_FAILURE);
    }
    if (memory_ == MAP_FAILED) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
    munmap(memory_, kAlternateBytes);
  }

  OverflowHandler(const OverflowHandler&) = delete;
  OverflowHandler& operator=(const OverflowHandler&) = delete;
  OverflowHandler(OverflowHandler&&) = delete;
  OverflowHandler& operator=(OverflowHandler&&) = delete;

  /// Made after what Boost keeps for the thread, so that it goes first.
  static OverflowHandler& of_this_thread() {
    static_cast<void>(inside_fiber());
    thread_local OverflowHandler handler;  // Below the rank boundary: a signal knows its thread.
    return handler;
  }

  void install() const {
    if (!has_stack_) return;

    struct sigaction present {};

    sigaction(SIGSEGV, nullptr, &present);
    const bool free = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
    if (!free) return;

    struct sigaction own {};

    own.sa_sigaction = &OverflowHandler::on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &own, nullptr);
  }

  StackOverflow* first = nullptr;

 private:
  // Once this returns, the access faults again and ends the process.
  static void on_fault(int /*signal*/, siginfo_t* info, void* context) {
    for (const StackOverflow* one = of_this_thread().first; one != nullptr; one = one->next_) {
      if (one->explain(info->si_addr, stack_pointer(context))) break;
    }
    static_cast<void>(std::signal(SIGSEGV, SIG_DFL));
  }

  void* memory_ = MAP_FAILED;
  bool has_stack_ = false;
};

StackOverflow::StackOverflow(const Stacks& stacks, const Owners& owners)
    : stacks_(&stacks), owners_(&owners), next_(OverflowHandler::of_this_thread().first) {
  OverflowHandler::of_this_thread().first = this;
  OverflowHandler::of_this_thread().install();
}

StackOverflow::~StackOverflow() {
  StackOverflow** link = &OverflowHandler::of_this_thread().first;
  while (*link != nullptr && *link != this) link = &(*link)->next_;
  if (*link == this) *link = next_;
}

// A frame larger than the stack faults far from it, perhaps in the guard page of another.
bool StackOverflow::explain(const void* address, std::uintptr_t top) const {
  const std::int32_t stack = owners_->running();
  if (stack < 0) return false;
  const bool outside =
      top != 0 && (top < reinterpret_cast<std::uintptr_t>(stacks_->bottom(stack)) ||
                   top > reinterpret_cast<std::uintptr_t>(stacks_->top(stack)));
  const std::int32_t rank = owners_->rank_of(stack);
  if (outside || stacks_->guarded_by(address) == stack) end_overflow(rank, stacks_->bytes());
  print_fault(rank, address);
  return true;
}

void StackOverflow::end(std::int32_t rank, std::size_t bytes) { end_overflow(rank, bytes); }

}  // namespace lockstep::sim
