// What a run that ends by an exception has found, where the exception ends the process.
#pragma once

#include <exception>

#include "lockstep/laws/report.h"

namespace lockstep::detail {

/// Throws `exception`, with which a run ends. If the program does not catch it, `report` is written
/// to the standard error before the process ends; if it does, report_of() has it.
[[noreturn]] void leave_with(const std::exception_ptr& exception, Report report);

}  // namespace lockstep::detail
