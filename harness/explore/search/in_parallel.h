// Many worlds at once. A world never crosses threads, and worlds share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lockstep::explore {

/// Makes one call for a number.
using Work = std::function<void(std::size_t)>;

/// Calls work(0) .. work(n - 1), each once, on up to `n_threads` threads; the caller's is one of
/// them. `make_work` is called once on each thread and gives what makes that thread's calls, with what
/// they share. Ends when all calls have ended.
///
/// Requires: calls of different threads share nothing, so that what they compute depends only on their
///     number.
/// Errors: rethrows what the call of the lowest number threw, of exceptions that are
///     std::exception; the calls after it may have been made or not.
void in_parallel(std::size_t n, std::uint64_t n_threads, const std::function<Work()>& make_work);

}  // namespace lockstep::explore
