// Informs AddressSanitizer and ThreadSanitizer which stack the thread is on, so that the one neither
// warns nor errs when an exception passes on a fiber, and the other does not take two ranks for one
// function that calls itself. Nothing at all in other builds.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#include <vector>
#endif

namespace lockstep::sim {

/// One per thread's engine. Every switch is `leave_for`, the switch, and then `come_back` where the
/// stack was left, or `arrive` on a fresh one. A stack is fresh after `renew`; `depart` comes before a
/// switch from the thread's own.
class StackWatch {
 public:
  struct Visit {
    void* fake = nullptr;  ///< The sanitizer's own, for the stack that is left.
  };

#ifdef __SANITIZE_ADDRESS__
  void renew(std::int32_t /*stack*/) {}

  void depart() {}

  Visit leave_for(std::int32_t /*stack*/, const std::byte* bottom, const std::byte* top) {
    Visit visit;
    __sanitizer_start_switch_fiber(&visit.fake, bottom, static_cast<std::size_t>(top - bottom));
    return visit;
  }

  Visit leave_for_main() {
    Visit visit;
    __sanitizer_start_switch_fiber(&visit.fake, main_bottom_, main_bytes_);
    return visit;
  }

  void come_back(const Visit& visit) {
    __sanitizer_finish_switch_fiber(visit.fake, nullptr, nullptr);
  }

  /// The first fiber of all is entered from the main stack, which becomes known here.
  void arrive() {
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (main_bottom_ != nullptr) return;
    main_bottom_ = bottom;
    main_bytes_ = bytes;
  }

 private:
  const void* main_bottom_ = nullptr;
  std::size_t main_bytes_ = 0;
#elif defined(__SANITIZE_THREAD__)
  StackWatch() = default;

  ~StackWatch() {
    for (void* fiber : fibers_) {
      if (fiber != nullptr) __tsan_destroy_fiber(fiber);
    }
  }

  StackWatch(const StackWatch&) = delete;
  StackWatch& operator=(const StackWatch&) = delete;
  StackWatch(StackWatch&&) = delete;
  StackWatch& operator=(StackWatch&&) = delete;

  void renew(std::int32_t stack) {
    const auto i = static_cast<std::size_t>(stack);
    if (fibers_.size() <= i) fibers_.resize(i + 1);
    if (fibers_[i] != nullptr) __tsan_destroy_fiber(fibers_[i]);
    fibers_[i] = __tsan_create_fiber(0);
  }

  void depart() { main_ = __tsan_get_current_fiber(); }

  Visit leave_for(std::int32_t stack, const std::byte* /*bottom*/, const std::byte* /*top*/) {
    __tsan_switch_to_fiber(fibers_[static_cast<std::size_t>(stack)], 0);
    return {};
  }

  Visit leave_for_main() {
    __tsan_switch_to_fiber(main_, 0);
    return {};
  }

  void come_back(const Visit& /*visit*/) {}

  void arrive() {}

 private:
  std::vector<void*> fibers_;  // By stack.
  void* main_ = nullptr;
#else
  // Called as the others are.  NOLINTBEGIN(readability-convert-member-functions-to-static)
  void renew(std::int32_t /*stack*/) {}

  void depart() {}

  Visit leave_for(std::int32_t /*stack*/, const std::byte* /*bottom*/, const std::byte* /*top*/) {
    return {};
  }

  Visit leave_for_main() { return {}; }

  void come_back(const Visit& /*visit*/) {}

  void arrive() {}

  // NOLINTEND(readability-convert-member-functions-to-static)
#endif
};

}  // namespace lockstep::sim
