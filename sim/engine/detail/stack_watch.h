// Informs AddressSanitizer which stack the thread is on, so that it neither warns nor errs when an
// exception passes on a fiber. Nothing at all in other builds.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace lockstep::sim {

/// One per thread's engine. Every switch is `leave_for`, the switch, and then `come_back` where the
/// stack was left, or `arrive` on a fresh one.
class StackWatch {
 public:
  struct Visit {
    void* fake = nullptr;  ///< The sanitizer's own, for the stack that is left.
  };

#ifdef __SANITIZE_ADDRESS__
  Visit leave_for(const std::byte* bottom, const std::byte* top) {
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
#else
  // Called as the others are.  NOLINTBEGIN(readability-convert-member-functions-to-static)
  Visit leave_for(const std::byte* /*bottom*/, const std::byte* /*top*/) { return {}; }

  Visit leave_for_main() { return {}; }

  void come_back(const Visit& /*visit*/) {}

  void arrive() {}

  // NOLINTEND(readability-convert-member-functions-to-static)
#endif
};

}  // namespace lockstep::sim
