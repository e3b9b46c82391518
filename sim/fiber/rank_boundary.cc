// Where a rank's program begins and ends: no exception crosses it. The only place that catches
// everything, because an exception that leaves a fiber ends the process.
#include <new>

#include <boost/context/detail/exception.hpp>

#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

void Scheduler::run_rank(RankSlot& slot) { finish(slot, run_program(slot)); }

RankEnd Scheduler::run_program(RankSlot& slot) {
  RankEnd end;
  try {
    slot.dying();
    (*program_)(slot);
    if (slot.fenced_) slot.dying();  // It was killed after its last point.
  } catch (const RankKilled& killed) {
    end.outcome = slot.fenced_ ? RankOutcome::kKilled : deaths_.outcome();
    end.why = killed.why();
    end.detail = killed.reason();
  } catch (const boost::context::detail::forced_unwind&) {
    throw;  // Boost takes a context down; it must reach the bottom of the stack.
  } catch (const std::bad_alloc&) {  // Its own text names a type.
    end.outcome = RankOutcome::kThrew;
    end.detail = "this machine does not have the memory for it";
    end.exception = std::current_exception();
  } catch (const std::exception& error) {
    end.outcome = RankOutcome::kThrew;
    end.detail = error.what();
    end.exception = std::current_exception();
  } catch (...) {  // The rank boundary: property-test libraries throw their own types.
    end.outcome = RankOutcome::kThrew;
    end.detail = "an exception that is not a std::exception";
    end.exception = std::current_exception();
  }
  end.time = slot.local_time();
  return end;
}

}  // namespace lockstep::sim
