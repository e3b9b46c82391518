#include "lockstep/real/gloo/gloo_group.h"

#include <fmt/core.h>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/real/gloo/detail/connection.h"
#include "lockstep/real/group/checked_arrivals.h"
#include "lockstep/real/group/connected_group.h"
#include "lockstep/real/group/rendezvous.h"

namespace lockstep::gloo {

Result<std::unique_ptr<ProcessGroup>> connect(const GlooOptions& options, Runtime& runtime) {
  LOCKSTEP_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size,
                 fmt::format("rank {} of a world of {}: a rank is from 0 to the size less one",
                             options.rank,
                             options.size));
  const Result<std::string> folder =
      peers::join_session(options.rendezvous, options.rank, options.size, options.timeout);
  if (!folder.ok()) return folder.error();
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(options.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const peers::Membership world = {.rank = options.rank,
                                   .size = options.size,
                                   .folder = folder.value(),
                                   .name = "world",
                                   .timeout = options.timeout,
                                   .check_signatures = options.check_signatures,
                                   .world_ranks = std::move(ranks)};
  Result<std::shared_ptr<peers::Connection>> connection = open_connection(world, options.host_name);
  if (!connection.ok()) return connection.error();
  if (options.check_arrivals) {
    connection = peers::check_arrivals(
        std::move(connection).value(),
        world,
        {.order = ReductionOrder::kGlooRing, .make_kernels = [] { return make_cpu_kernels(); }});
    if (!connection.ok()) return connection.error();
  }
  return peers::make_connected_group(
      runtime, {"gloo", "gloo-ring"}, world, std::move(connection).value());
}

}  // namespace lockstep::gloo
