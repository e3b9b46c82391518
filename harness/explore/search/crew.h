// Many worlds at once. A world never crosses threads, and worlds share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::explore {

/// Makes one call for a number.
using Work = std::function<void(std::size_t)>;

/// Threads that make calls side by side, and keep what they make them with from one round to the next.
///
/// A round is run(n): the calls 0 .. n - 1, each once. Whichever thread is free takes the next number, so that one slow call
/// holds up no other.
///
///     Crew crew(2, [] { return Work([session = std::make_shared<Session>()](std::size_t i) { ... }); });
///     crew.run(64);
///
/// Requires: one thread makes it, runs its rounds and ends it, and makes some of the calls. Calls share nothing that they
///     change but what their own thread's work keeps, so that what they compute depends only on their number.
class Crew {
 public:
  /// `make_work` is called once on each thread, in its first round, and what it gave is destroyed there. A round of fewer calls
  /// than `n_threads` starts no thread that would have none; 0 threads are one.
  Crew(std::uint64_t n_threads, std::function<Work()> make_work);
  /// Ends the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  Crew(Crew&&) = delete;
  Crew& operator=(Crew&&) = delete;

  /// Makes the calls of a round, and ends when all have ended.
  /// Errors: rethrows what the call of the lowest number threw; those of higher numbers may have been made or not. What
  ///     `make_work` throws ends the process.
  void run(std::size_t n);

 private:
  class Threads;

  std::unique_ptr<Threads> threads_;
};

}  // namespace lockstep::explore
