#include "lockstep/harness/run/detail/uncaught.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "lockstep/run.h"

namespace lockstep {

namespace {

/// The last exception that left a run of this thread, and what the run had found.
struct Left {
  std::exception_ptr exception;
  Report report;
};

Left& last_left() {
  thread_local Left left;
  return left;
}

void write_report_of_current() {
  const Report* const report = report_of(std::current_exception());
  if (report == nullptr) return;
  const std::string text = render_text(*report, TextOptions{});
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  static_cast<void>(std::fputc('\n', stderr));
}

std::terminate_handler handler_before();

/// A program that catches nothing ends here before anything of it is unwound.
[[noreturn]] void on_terminate() {
  write_report_of_current();
  if (const std::terminate_handler before = handler_before()) before();
  std::abort();
}

// Once in a process: who sets a handler later may call this one.
std::terminate_handler handler_before() {
  static const std::terminate_handler before = std::set_terminate(on_terminate);
  return before;
}

}  // namespace

const Report* report_of(const std::exception_ptr& exception) {
  const Left& left = last_left();
  return exception != nullptr && exception == left.exception ? &left.report : nullptr;
}

namespace detail {

void leave_with(const std::exception_ptr& exception, Report report) {
  last_left() = {exception, std::move(report)};
  static_cast<void>(handler_before());
  std::rethrow_exception(exception);
}

}  // namespace detail
}  // namespace lockstep
