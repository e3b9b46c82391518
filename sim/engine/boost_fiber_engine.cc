// Boost.Fiber contexts without its scheduler: who runs next is decided before a switch, and the
// switch goes straight to that context. Fibers park when their body ends and are never terminated:
// Boost 1.74 touches a second page of every terminated fiber, and its stacks come back only through
// a dispatcher.
#include <cstring>
#include <cxxabi.h>
#include <string>
#include <utility>
#include <vector>

#include <boost/context/detail/exception.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/properties.hpp>

#include "lockstep/base/check.h"
#include "lockstep/sim/engine/detail/last_frames.h"
#include "lockstep/sim/engine/detail/stack_overflow.h"
#include "lockstep/sim/engine/detail/stack_watch.h"
#include "lockstep/sim/engine/detail/stacks.h"
#include "lockstep/sim/engine/engine.h"

namespace lockstep::sim {

namespace {

namespace fibers = boost::fibers;

// Marks a Boost context as ours, so that a world inside a rank can be refused.
class RankMark final : public fibers::fiber_properties {
 public:
  RankMark() noexcept : fiber_properties(nullptr) {}
};

// What the C++ runtime keeps a thread: the exceptions being handled and the number in flight.
struct ExceptionState {
  void* caught;
  unsigned int n_uncaught;
};

// Hands Boost one stack of the reservation. It is never given back singly.
class StackSource {
 public:
  StackSource(std::byte* top, std::size_t bytes) : top_(top), bytes_(bytes) {}

  boost::context::stack_context allocate() const {
    boost::context::stack_context stack;
    stack.sp = top_;
    stack.size = bytes_;
    return stack;
  }

  void deallocate(boost::context::stack_context& /*stack*/) const noexcept {}

 private:
  std::byte* top_;
  std::size_t bytes_;
};

class BoostFiberEngine final : public Engine, private StackOverflow::Owners {
 public:
  explicit BoostFiberEngine(const StackOptions& options)
      : stacks_(options.bytes, options.n_guarded) {}

  Fiber create(std::function<void(Fiber)> body) override {
    if (free_.empty()) add_fiber();
    const Fiber fiber = free_.back();
    free_.pop_back();
    Record& record = record_of(fiber);
    fibers::context*& context = contexts_[static_cast<std::size_t>(fiber)];
    if (context == nullptr) context = make_context(fiber);
    record.body = std::move(body);
    record.finished = false;
    record.rank = fiber;
    return fiber;
  }

  void name(Fiber fiber, std::int32_t rank) override { record_of(fiber).rank = rank; }

  void resume(Fiber fiber) override {
    if (current_ == kMain) {
      main_ = fibers::context::active();
      watch_.depart();
    }
    go_to(fiber, contexts_[static_cast<std::size_t>(fiber)]);
  }

  void suspend() override { go_to(kMain, main_); }

  void prefetch(Fiber fiber) const override {
    const auto index = static_cast<std::size_t>(fiber);
    last_frames_.prefetch(index, contexts_[index]);
  }

  bool finished(Fiber fiber) const override {
    return records_[static_cast<std::size_t>(fiber)].finished;
  }

  bool is_here() const override {
    const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
    return current_ != kMain && here < stacks_.top(current_) && here > stacks_.bottom(current_);
  }

  void destroy() override {
    free_.clear();
    for (std::size_t i = records_.size(); i-- > 0;) {
      if (!records_[i].finished) {
        records_[i] = Record{};
        contexts_[i] = nullptr;
        last_frames_.forget(i);
      }
      free_.push_back(static_cast<Fiber>(i));
    }
  }

 private:
  struct Record {
    std::function<void(Fiber)> body;
    bool finished = true;
    std::int32_t rank = 0;
  };

  std::int32_t rank_of(std::int32_t stack) const override {
    return records_[static_cast<std::size_t>(stack)].rank;
  }

  std::int32_t running() const override { return current_; }

  Record& record_of(Fiber fiber) { return records_[static_cast<std::size_t>(fiber)]; }

  void add_fiber() {
    stacks_.add();
    records_.emplace_back();
    contexts_.push_back(nullptr);
    last_frames_.add();
    free_.push_back(static_cast<Fiber>(records_.size()) - 1);
  }

  fibers::context* make_context(Fiber fiber) {
    // Stack tops at equal distances of a power of two would all map to the same cache sets.
    // Boost aligns its control block to 256 bytes; run() adds the finer part of the colour. Four
    // colours leave a rank in a collective, which needs up to 3.1 KB, within one page.
    const auto colour = 256 * static_cast<std::size_t>(fiber / 4 % 4);
    std::byte* top = stacks_.top(fiber) - colour;
    const StackSource source(top, static_cast<std::size_t>(top - stacks_.bottom(fiber)));
    auto context = fibers::make_worker_context(
        fibers::launch::post, source, [this, fiber]() noexcept { run(fiber); });
    context->set_properties(&mark_);
    watch_.renew(fiber);
    return context.detach();
  }

  void run(Fiber fiber) {
    watch_.arrive();
    auto* shift = static_cast<volatile std::byte*>(
        __builtin_alloca(64 * static_cast<std::size_t>(fiber % 4) + 16));
    shift[0] = std::byte{0};
    for (;;) {
      run_body(fiber);
      suspend();
    }
  }

  // The body is moved off the record: records_ may grow while it runs.
  void run_body(Fiber fiber) {
    {
      const std::function<void(Fiber)> body = std::move(record_of(fiber).body);
      body(fiber);
    }
    record_of(fiber).finished = true;
    free_.push_back(fiber);
  }

  void go_to(Fiber fiber, fibers::context* context) {
    const Fiber self = current_;
    check_stack(self);
    void* globals = abi::__cxa_get_globals();
    ExceptionState saved{};
    std::memcpy(&saved, globals, sizeof(saved));
    std::memset(globals, 0, sizeof(saved));  // What a fresh fiber starts with.
    if (self != kMain) {
      last_frames_.note(static_cast<std::size_t>(self), __builtin_frame_address(0));
    }
    current_ = fiber;
    const StackWatch::Visit visit =
        fiber == kMain ? watch_.leave_for_main()
                       : watch_.leave_for(fiber, stacks_.bottom(fiber), stacks_.top(fiber));
    context->resume();
    watch_.come_back(visit);
    current_ = self;
    std::memcpy(globals, &saved, sizeof(saved));
  }

  void check_stack(Fiber self) const {
    if (self == kMain) return;
    const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
    if (!stacks_.is_guarded(self) && stacks_.is_overrun(self)) {
      StackOverflow::end(rank_of(self), stacks_.bytes());
    }
    if (here >= stacks_.top(self) || here <= stacks_.bottom(self)) complain(self, kElsewhere);
    if (here <= stacks_.bottom(self) + kLeastPages * kStackPage) complain(self, kUsedUp);
  }

  /// What it takes to throw an exception.
  static constexpr std::size_t kLeastPages = 2;
  static constexpr const char* kElsewhere =
      " is used on a thread or stack other than its own: use a rank's context only in its own "
      "function, within RunOptions::stack_bytes";
  static constexpr const char* kUsedUp =
      " overflowed its stack: raise RunOptions::stack_bytes, or use smaller frames";

  [[noreturn, gnu::noinline, gnu::cold]] void complain(Fiber self, const char* what) const {
    fail_check("its own stack", __FILE__, __LINE__, "rank " + std::to_string(rank_of(self)) + what);
  }

  Stacks stacks_;
  StackOverflow overflow_{stacks_, *this};
  [[no_unique_address]] StackWatch watch_;
  RankMark mark_;
  std::vector<fibers::context*>
      contexts_;  // At the tops of their own stacks. Dense: every switch reads it.
  LastFrames last_frames_;
  std::vector<Record> records_;
  std::vector<Fiber> free_;
  fibers::context* main_ = nullptr;
  Fiber current_ = kMain;
};

}  // namespace

std::unique_ptr<Engine> make_boost_fiber_engine(const StackOptions& options) {
  return std::make_unique<BoostFiberEngine>(options);
}

bool inside_fiber() {
  return dynamic_cast<const RankMark*>(fibers::context::active()->get_properties()) != nullptr;
}

void rethrow_unwinding() {
  try {
    throw;
  } catch (const boost::context::detail::forced_unwind&) {
    throw;
  } catch (...) {  // Any other is the caller's: the rank boundary.
    return;
  }
}

}  // namespace lockstep::sim
