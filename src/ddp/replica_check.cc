#include "lockstep/ddp/replica_check.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <string>
#include <vector>

#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

namespace {

// Lists of all ranks on all ranks: beyond this they are gigabytes.
constexpr std::int32_t kMaxGathered = 4096;

// Who differs stays unknown, but memory does not grow with the square of the ranks.
void verify_counts_of_many(ProcessGroup& group, std::int64_t n_params, const OpOptions& options) {
  std::array<std::int64_t, 2> most = {n_params, -n_params};
  group.all_reduce(Memory::of(std::span<std::int64_t>(most)), ReduceOp::kMax, options)
      .wait_or_throw();
  if (most[0] == n_params && most[1] == -n_params) return;
  throw ReducerError("DDP expects same model across all ranks, but Rank " +
                     std::to_string(group.rank()) + " has " + std::to_string(n_params) +
                     " params, while others have " + std::to_string(-most[1]) + " to " +
                     std::to_string(most[0]) + " params.");
}

void verify_counts(ProcessGroup& group, std::int64_t n_params, const OpOptions& options) {
  if (group.size() > kMaxGathered) return verify_counts_of_many(group, n_params, options);
  std::pmr::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()),
                                        &group.runtime().pool());
  group
      .all_gather_into_tensor(
          Memory::of(std::span(counts)), Memory::of(std::span(&n_params, 1)), options)
      .wait_or_throw();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == n_params) continue;
    throw ReducerError("DDP expects same model across all ranks, but Rank " +
                       std::to_string(group.rank()) + " has " + std::to_string(n_params) +
                       " params, while rank " + std::to_string(i) + " has inconsistent " +
                       std::to_string(counts[i]) + " params.");
  }
}

// Sizes, then row-major strides.
void append_metadata(std::pmr::vector<std::int64_t>& metadata, const Shape& shape) {
  const std::span<const std::int64_t> sizes = shape.sizes();
  metadata.insert(metadata.end(), sizes.begin(), sizes.end());
  const std::size_t first = metadata.size();
  metadata.resize(first + sizes.size());
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    metadata[first + d] = stride;
    stride *= std::max<std::int64_t>(sizes[d], 1);
  }
}

}  // namespace

void verify_replicas(ProcessGroup& group,
                     std::span<const NamedVariable> parameters,
                     const OpOptions& options) {
  verify_counts(group, static_cast<std::int64_t>(parameters.size()), options);

  std::size_t n_dims = 0;
  for (const NamedVariable& parameter : parameters) n_dims += parameter.variable.shape().n_dims();
  std::pmr::vector<std::int64_t> metadata(&group.runtime().pool());
  metadata.reserve(2 * n_dims);
  for (const NamedVariable& parameter : parameters) {
    append_metadata(metadata, parameter.variable.shape());
  }
  group.broadcast(Memory::of(std::span(metadata)), 0, options).wait_or_throw();
  std::size_t next = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Shape& shape = parameters[p].variable.shape();
    for (std::size_t d = 0; d < shape.n_dims(); ++d) {
      // Strides follow from sizes here, so sizes alone decide.
      if (metadata[next + d] == shape[d]) continue;
      throw ReducerError("[" + std::to_string(group.rank()) + "]: params[" + std::to_string(p) +
                         "] in this process with sizes " + shape.text() +
                         " appears not to match sizes of the same param in process 0.");
    }
    next += 2 * shape.n_dims();
  }
}

}  // namespace lockstep
