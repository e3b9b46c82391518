#include "lockstep/comm/reduction_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fmt/core.h>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/blocks.h"
#include "lockstep/comm/detail/gloo_order.h"
#include "lockstep/comm/detail/nccl_order.h"
#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRingSegmentBytes = 1 << 20;
constexpr std::int64_t kPairwiseBlock = 1024;  // Elements per rank: temporaries stay in cache.
constexpr std::int32_t kMaxChannels = 64;

void* advance(void* data, std::int64_t bytes) { return static_cast<std::byte*>(data) + bytes; }

const void* advance(const void* data, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

// Walks the chunks that the part [offset, offset + count) of the whole buffer touches.
void reduce_ring(Kernels& kernels, const RankReduction& job) {
  const std::size_t n = job.inputs.size();
  const std::int64_t elem_bytes = size_of(job.dtype);
  const std::int64_t total = std::max(job.total, job.count);
  const std::int64_t chunk =
      detail::gloo_ring_chunk(total, elem_bytes, static_cast<std::int64_t>(n));
  std::vector<const void*> inputs(n);
  std::vector<void*> outputs(job.outputs.size());
  std::int64_t begin = 0;
  while (begin < job.count) {
    const auto c = static_cast<std::size_t>((job.offset + begin) / chunk);
    const std::int64_t chunk_end = static_cast<std::int64_t>(c + 1) * chunk - job.offset;
    const std::int64_t end = std::min(chunk_end, job.count);
    // The chunk starts at rank c-1 and travels down to rank c: the innermost pair first.
    for (std::size_t k = 0; k < n; ++k) {
      inputs[k] = advance(job.inputs[(c + n - 1 - k) % n], begin * elem_bytes);
    }
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      outputs[r] = advance(job.outputs[r], begin * elem_bytes);
    }
    kernels.reduce(outputs, inputs, end - begin, job.dtype, job.op);
    begin = end;
  }
}

// One block, level by level; `level` holds the operands of the current level.
void reduce_pairs(Kernels& kernels,
                  const RankReduction& block,
                  std::vector<const void*>& level,
                  std::byte* scratch) {
  const std::int64_t bytes = block.count * size_of(block.dtype);
  while (level.size() > 2) {
    const std::size_t n_pairs = level.size() / 2;
    for (std::size_t i = 0; i < n_pairs; ++i) {
      void* sum = scratch + static_cast<std::int64_t>(i) * bytes;
      kernels.reduce(std::span<void* const>(&sum, 1),
                     std::span(level).subspan(2 * i, 2),
                     block.count,
                     block.dtype,
                     block.op);
      level[i] = sum;
    }
    const bool odd = level.size() % 2 == 1;
    if (odd) level[n_pairs] = level.back();
    level.resize(n_pairs + (odd ? 1 : 0));
  }
  kernels.reduce(block.outputs, level, block.count, block.dtype, block.op);
}

// Adding -0 changes no number, so N - 1 of them let the kernel divide a finished sum by N.
std::vector<std::byte> neutral_elements(std::int64_t count, DType dtype) {
  const auto bytes = static_cast<std::size_t>(size_of(dtype));
  std::vector<std::byte> zeros(static_cast<std::size_t>(count) * bytes);
  if (!is_floating(dtype)) return zeros;
  for (std::size_t i = bytes - 1; i < zeros.size(); i += bytes) zeros[i] = std::byte{0x80};
  return zeros;
}

void divide(Kernels& kernels, const RankReduction& block, std::size_t n_ranks) {
  const std::vector<std::byte> zeros = neutral_elements(block.count, block.dtype);
  std::vector<const void*> inputs(n_ranks, zeros.data());
  inputs[0] = block.outputs[0];
  kernels.reduce(block.outputs, inputs, block.count, block.dtype, ReduceOp::kAvg);
}

void reduce_pairwise(Kernels& kernels, const RankReduction& job) {
  const std::size_t n = job.inputs.size();
  const std::int64_t elem_bytes = size_of(job.dtype);
  const std::int64_t block = std::min(kPairwiseBlock, job.count);
  std::vector<std::byte> scratch(static_cast<std::size_t>(block * elem_bytes) * (n / 2 + 1));
  std::vector<const void*> level;
  std::vector<void*> outputs(job.outputs.size());
  const bool average = job.op == ReduceOp::kAvg;
  RankReduction part = job;
  part.outputs = outputs;
  if (average) part.op = ReduceOp::kSum;
  for (std::int64_t begin = 0; begin < job.count; begin += block) {
    level.resize(n);
    for (std::size_t r = 0; r < n; ++r) level[r] = advance(job.inputs[r], begin * elem_bytes);
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      outputs[r] = advance(job.outputs[r], begin * elem_bytes);
    }
    part.count = std::min(block, job.count - begin);
    reduce_pairs(kernels, part, level, scratch.data());
    if (average) divide(kernels, part, n);
  }
}

void reduce_plainly(Kernels& kernels, const RankReduction& job, const ReductionOrder& order) {
  switch (order.kind()) {
    case ReductionOrder::kRank:
      return kernels.reduce(job.outputs, job.inputs, job.count, job.dtype, job.op);
    case ReductionOrder::kGlooRing:
      return reduce_ring(kernels, job);
    case ReductionOrder::kPairwise:
      return reduce_pairwise(kernels, job);
    case ReductionOrder::kNcclRing:
    case ReductionOrder::kNcclTree:
      return detail::reduce_as_nccl(kernels, job, order);
  }
}

// Multiplies every rank's values first: product and sum round separately.
void reduce_scaled(Kernels& kernels, const RankReduction& job, const ReductionOrder& order) {
  const auto bytes = static_cast<std::size_t>(job.count * size_of(job.dtype));
  const double factor = detail::rounded_factor(job.premul, job.dtype);
  std::vector<std::vector<std::byte>> scaled(job.inputs.size(), std::vector<std::byte>(bytes));
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < scaled.size(); ++r) {
    detail::scale(scaled[r].data(), job.inputs[r], factor, job.count, job.dtype);
    inputs.push_back(scaled[r].data());
  }
  RankReduction sum = job;
  sum.inputs = inputs;
  sum.op = ReduceOp::kSum;
  reduce_plainly(kernels, sum, order);
}

constexpr std::array<std::pair<std::string_view, ReductionOrder::Kind>, 5> kNames = {
    {{"rank", ReductionOrder::kRank},
     {"gloo-ring", ReductionOrder::kGlooRing},
     {"pairwise", ReductionOrder::kPairwise},
     {"nccl-ring", ReductionOrder::kNcclRing},
     {"nccl-tree", ReductionOrder::kNcclTree}}};

std::string base_name(ReductionOrder::Kind kind) {
  for (const auto& [name, named] : kNames) {
    if (named == kind) return std::string(name);
  }
  return "unknown";
}

std::optional<std::int32_t> parse_number(std::string_view text) {
  std::int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  const bool whole = result.ec == std::errc() && result.ptr == end && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

// Cuts the text before `separator` off; an empty rest is gone.
std::optional<std::string_view> next_part(std::optional<std::string_view>& rest, char separator) {
  if (!rest) return std::nullopt;
  const std::size_t cut = rest->find(separator);
  const std::string_view part = rest->substr(0, cut);
  rest = cut == std::string_view::npos ? std::nullopt : std::optional(rest->substr(cut + 1));
  return part;
}

bool is_permutation_of_ranks(std::vector<std::int32_t> ring) {
  std::sort(ring.begin(), ring.end());
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (ring[i] != static_cast<std::int32_t>(i)) return false;
  }
  return !ring.empty();
}

std::optional<ReductionOrder> parse_rings(std::string_view text) {
  std::vector<std::vector<std::int32_t>> rings;
  std::optional<std::string_view> rest = text;
  while (auto list = next_part(rest, ';')) {
    std::vector<std::int32_t> ring;
    std::optional<std::string_view> ranks = list;
    while (const auto word = next_part(ranks, ',')) {
      const auto rank = parse_number(*word);
      if (!rank) return std::nullopt;
      ring.push_back(*rank);
    }
    const bool same_size = rings.empty() || rings[0].size() == ring.size();
    if (!same_size || !is_permutation_of_ranks(ring)) return std::nullopt;
    rings.push_back(std::move(ring));
  }
  if (rings.size() > static_cast<std::size_t>(kMaxChannels)) return std::nullopt;
  return ReductionOrder(std::move(rings));
}

}  // namespace

std::int64_t detail::gloo_ring_chunk(std::int64_t count,
                                     std::int64_t elem_bytes,
                                     std::int64_t n_ranks) {
  const std::int64_t total_bytes = count * elem_bytes;
  const std::int64_t n_segments = detail::round_up(
      std::max(detail::ceil_div(total_bytes, kRingSegmentBytes), 2 * n_ranks), n_ranks);
  const std::int64_t segment_bytes =
      detail::round_up(detail::ceil_div(total_bytes, n_segments), elem_bytes);
  return n_segments / n_ranks * segment_bytes / elem_bytes;
}

ReductionOrder::ReductionOrder(Kind kind, std::int32_t n_channels)
    : kind_(kind), n_channels_(n_channels), name_(base_name(kind)) {
  const bool has_channels = kind == kNcclRing || kind == kNcclTree;
  LOCKSTEP_CHECK(n_channels == 1 || (has_channels && n_channels > 0 && n_channels <= kMaxChannels),
                 fmt::format("'{}' with {} channels: NCCL's orders have 1 to {}, the others one",
                             name_,
                             n_channels,
                             kMaxChannels));
  if (n_channels > 1) name_ += '@' + std::to_string(n_channels);
}

ReductionOrder::ReductionOrder(std::vector<std::vector<std::int32_t>> rings)
    : kind_(kNcclRing),
      n_channels_(static_cast<std::int32_t>(rings.size())),
      rings_(std::move(rings)),
      name_("nccl-ring") {
  LOCKSTEP_CHECK(!rings_.empty(), "a reduction order of rings got none: it has at least one");
  for (std::vector<std::int32_t>& ring : rings_) {
    LOCKSTEP_CHECK(
        ring.size() == rings_[0].size() && is_permutation_of_ranks(ring),
        fmt::format("ring {} is not an order of ranks 0 to {}: every ring lists all ranks once",
                    join(ring),
                    rings_[0].size() - 1));
    std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0), ring.end());
    char separator = &ring == rings_.data() ? ':' : ';';
    for (const std::int32_t rank : ring) {
      name_ += std::exchange(separator, ',') + std::to_string(rank);
    }
  }
}

std::span<const std::int32_t> ReductionOrder::ring(std::int32_t channel) const {
  if (rings_.empty()) return {};
  return rings_[static_cast<std::size_t>(channel)];
}

bool ReductionOrder::fits(std::int32_t n_ranks) const {
  return rings_.empty() || rings_[0].size() == static_cast<std::size_t>(n_ranks);
}

std::optional<ReductionOrder> parse_reduction_order(std::string_view name) {
  constexpr std::string_view kRings = "nccl-ring:";
  if (name.starts_with(kRings)) return parse_rings(name.substr(kRings.size()));
  const std::size_t cut = name.find('@');
  std::int32_t n_channels = 1;
  if (cut != std::string_view::npos) {
    const auto number = parse_number(name.substr(cut + 1));
    if (!name.starts_with("nccl-") || !number || *number < 1 || *number > kMaxChannels) {
      return std::nullopt;
    }
    n_channels = *number;
  }
  for (const auto& [base, kind] : kNames) {
    if (name.substr(0, cut) == base) return ReductionOrder(kind, n_channels);
  }
  return std::nullopt;
}

void reduce_in_order(Kernels& kernels, const RankReduction& job, const ReductionOrder& order) {
  LOCKSTEP_CHECK(!job.inputs.empty(), "a reduction got no inputs: it needs at least one");
  if (job.count == 0) return;
  const bool nccl =
      order.kind() == ReductionOrder::kNcclRing || order.kind() == ReductionOrder::kNcclTree;
  if (job.op == ReduceOp::kPremulSum && !nccl) return reduce_scaled(kernels, job, order);
  reduce_plainly(kernels, job, order);
}

}  // namespace lockstep
