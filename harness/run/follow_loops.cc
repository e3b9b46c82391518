#include "lockstep/harness/run/detail/follow_loops.h"

#include "lockstep/ddp/own_loops.h"
#include "lockstep/memory/placed.h"

namespace lockstep::detail {

void follow_loops(const std::function<void(RankContext&)>& body, RankContext& context) {
  Runtime& runtime = context.runtime();
  // On the heap: stacks of ranks that record nothing stay within a page.
  Placed<OwnLoops> loops;
  if (runtime.recorder() != nullptr) {
    loops = make_placed<OwnLoops>(runtime.pool(), runtime, context.world_size());
  }
  body(context);
}

}  // namespace lockstep::detail
