#include "lockstep/gpu/nccl/nccl_group.h"

#include <cstring>
#include <fmt/core.h>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/gpu/nccl/detail/connection.h"
#include "lockstep/gpu/nccl/result_text.h"
#include "lockstep/real/group/connected_group.h"
#include "lockstep/real/group/file_store.h"
#include "lockstep/real/group/rendezvous.h"

namespace lockstep::nccl {

namespace {

using peers::Membership;

/// What ranks tell each other before NCCL starts. Copied as bytes between processes of one build.
struct Greeting {
  std::int32_t version = 0;
  UniqueId id;  // Rank 0's counts.
};

Greeting greeting_at(const peers::Bytes& all, std::size_t rank) {
  Greeting greeting;
  std::memcpy(&greeting, all.data() + rank * sizeof greeting, sizeof greeting);
  return greeting;
}

Result<UniqueId> greet(Api& api, peers::PeerMonitor& monitor, const Membership& world) {
  Greeting own;
  own.version = api.library_version();
  if (world.rank == 0) {
    const Status status = api.get_unique_id(own.id);
    if (status != Status::kSuccess) {
      return Error{describe(api, "ncclGetUniqueId", status, nullptr), {}};
    }
  }
  constexpr std::int64_t kBeforeAllOthers = -1;
  const peers::GatheredBytes roll = peers::all_gather_bytes(
      monitor, world, kBeforeAllOthers, std::as_bytes(std::span(&own, 1)), world.timeout);
  if (roll.completion.status != CommStatus::kOk) return Error{roll.completion.detail, world.folder};
  const Greeting first = greeting_at(roll.all, 0);
  for (std::size_t r = 1; r < world.world_ranks.size(); ++r) {
    const std::int32_t version = greeting_at(roll.all, r).version;
    if (version == first.version) continue;
    return Error{"NCCL versions differ: rank 0 has " + std::to_string(first.version) + ", rank " +
                     std::to_string(r) + " " + std::to_string(version),
                 {}};
  }
  return first.id;
}

Membership world_of(const NcclOptions& options, const std::string& folder) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(options.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {.rank = options.rank,
          .size = options.size,
          .folder = folder,
          .name = "world",
          .timeout = options.timeout,
          .check_signatures = options.check_signatures,
          .world_ranks = std::move(ranks)};
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> connect(std::shared_ptr<Api> api,
                                              const NcclOptions& options,
                                              Runtime& runtime) {
  LOCKSTEP_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size,
                 fmt::format("rank {} of a world of {}: a rank is from 0 to the size less one",
                             options.rank,
                             options.size));
  if (const std::string text = api->version_mismatch(); !text.empty()) return Error{text, {}};
  const CudaStatus chosen = api->set_device(options.device);
  if (chosen != CudaStatus::kSuccess) {
    return Error{"cudaSetDevice(" + std::to_string(options.device) + "): " + api->cuda_text(chosen),
                 {}};
  }
  const Result<std::string> folder =
      peers::join_session(options.rendezvous, options.rank, options.size, options.timeout);
  if (!folder.ok()) return folder.error();
  const Membership world = world_of(options, folder.value());
  peers::PeerMonitor monitor(world);
  const Result<UniqueId> id = greet(*api, monitor, world);
  if (!id.ok()) return id.error();
  Deadline deadline(monitor, options.timeout);
  auto joined = Communicator::join(api, options.size, id.value(), options.rank, deadline);
  if (!joined.ok()) {
    monitor.report_failure(joined.error().text());
    return Error{"the ranks did not connect: " + joined.error().text(), {}};
  }
  const DeviceContext context = {std::move(api), options.device, options.compute_stream};
  return peers::make_connected_group(runtime,
                                     {"nccl", "nccl-ring"},
                                     world,
                                     make_connection(context, world, std::move(joined).value()));
}

}  // namespace lockstep::nccl
