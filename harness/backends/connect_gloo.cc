#include "lockstep/harness/backends/connect.h"
#include "lockstep/real/gloo/gloo_group.h"

namespace lockstep {

Result<std::unique_ptr<ProcessGroup>> connect_gloo(const BackendOptions& options,
                                                   Runtime& runtime) {
  return gloo::connect({.rank = options.place.rank,
                        .size = options.place.world_size,
                        .rendezvous = options.rendezvous,
                        .timeout = options.timeout,
                        .check_signatures = options.check_signatures,
                        .check_arrivals = options.check_arrivals},
                       runtime);
}

std::string obstacle_to_gloo() { return {}; }

}  // namespace lockstep
