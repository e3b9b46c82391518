#include "lockstep/nccl/nccl_group.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/nccl/detail/connection.h"
#include "lockstep/nccl/result_text.h"
#include "lockstep/peers/connected_group.h"
#include "lockstep/peers/noticeboard.h"
#include "lockstep/peers/rendezvous.h"

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

Result<UniqueId> greet(Api& api, peers::Watch& watch, const Membership& world) {
  Greeting own;
  own.version = api.library_version();
  if (world.rank == 0) {
    const Status status = api.get_unique_id(own.id);
    if (status != Status::kSuccess) {
      return Error{describe(api, "ncclGetUniqueId", status, nullptr), {}};
    }
  }
  constexpr std::int64_t kBeforeAllOthers = -1;
  const peers::RollCall roll = peers::call_roll(
      watch, world, kBeforeAllOthers, std::as_bytes(std::span(&own, 1)), world.timeout);
  if (roll.ending.status != CommStatus::kOk) return Error{roll.ending.detail, world.folder};
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
                 "a rank is below the size of its world");
  if (const std::string text = api->version_mismatch(); !text.empty()) return Error{text, {}};
  const CudaStatus chosen = api->set_device(options.device);
  if (chosen != CudaStatus::kSuccess) {
    return Error{"cudaSetDevice(" + std::to_string(options.device) + "): " + api->cuda_text(chosen),
                 {}};
  }
  const Result<std::string> folder =
      peers::sign_in(options.rendezvous, options.rank, options.size, options.timeout);
  if (!folder.ok()) return folder.error();
  const Membership world = world_of(options, folder.value());
  peers::Watch watch(world);
  const Result<UniqueId> id = greet(*api, watch, world);
  if (!id.ok()) return id.error();
  Vigil vigil(watch, options.timeout);
  auto joined = Communicator::join(api, options.size, id.value(), options.rank, vigil);
  if (!joined.ok()) {
    watch.give_up(joined.error().text());
    return Error{"the ranks did not connect: " + joined.error().text(), {}};
  }
  const Place place = {std::move(api), options.device, options.compute_stream};
  return peers::make_connected_group(runtime,
                                     {"nccl", "nccl-ring"},
                                     world,
                                     make_connection(place, world, std::move(joined).value()));
}

}  // namespace lockstep::nccl
