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

std::optional<ReductionOrder::Kind> parse_kind(std::string_view text) {
  for (const auto& [name, kind] : kNames) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, NcclProtocol>, 3> kProtocols = {
    {{"", NcclProtocol::kSimple}, {".ll", NcclProtocol::kLl}, {".ll128", NcclProtocol::kLl128}}};

std::string_view word_of(NcclProtocol protocol) {
  return kProtocols[static_cast<std::size_t>(protocol)].first;
}

std::optional<NcclProtocol> parse_protocol(std::string_view text) {
  for (const auto& [name, protocol] : kProtocols) {
    if (name == text) return protocol;
  }
  return std::nullopt;
}

bool is_period(std::int32_t n_channels) {
  return n_channels > 0 && n_channels <= kMaxChannels && n_channels % 2 == 0;
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

// "4" or, of trees, "4/2".
bool parse_channels(std::string_view text, ReductionOrder::Kind kind, NcclCuts& cuts) {
  std::optional<std::string_view> rest = text;
  const auto n_channels = parse_number(*next_part(rest, '/'));
  if (!n_channels || *n_channels < 1 || *n_channels > kMaxChannels) return false;
  cuts.n_channels = *n_channels;
  if (!rest) return true;
  const auto period = parse_number(*rest);
  if (kind != ReductionOrder::kNcclTree || !period || !is_period(*period)) return false;
  cuts.tree_period = *period;
  return true;
}

bool is_permutation_of_ranks(std::vector<std::int32_t> ring) {
  std::sort(ring.begin(), ring.end());
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (ring[i] != static_cast<std::int32_t>(i)) return false;
  }
  return !ring.empty();
}

std::optional<ReductionOrder> parse_rings(std::string_view text, NcclProtocol protocol) {
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
  return ReductionOrder(std::move(rings), protocol);
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

ReductionOrder::ReductionOrder(Kind kind, const NcclCuts& cuts)
    : kind_(kind), cuts_(cuts), name_(base_name(kind)) {
  const std::int32_t n = cuts.n_channels;
  LOCKSTEP_CHECK(n == 1 || (is_nccl() && n > 0 && n <= kMaxChannels),
                 fmt::format("'{}' with {} channels: NCCL's orders have 1 to {}, the others one",
                             name_,
                             n,
                             kMaxChannels));
  LOCKSTEP_CHECK(is_nccl() || cuts.protocol == NcclProtocol::kSimple,
                 fmt::format("'{}' with protocol '{}': only NCCL's orders have protocols",
                             name_,
                             word_of(cuts.protocol)));
  LOCKSTEP_CHECK(
      cuts.tree_period == 0 || (kind == kNcclTree && is_period(cuts.tree_period)),
      fmt::format("'{}' whose trees repeat after {} channels: an even number, at most {}",
                  name_,
                  cuts.tree_period,
                  kMaxChannels));
  if (n == 1 || cuts_.tree_period == n) cuts_.tree_period = 0;  // Says nothing.
  name_ += word_of(cuts.protocol);
  if (n > 1 || cuts_.tree_period > 0) name_ += '@' + std::to_string(n);
  if (cuts_.tree_period > 0) name_ += '/' + std::to_string(cuts_.tree_period);
}

ReductionOrder::ReductionOrder(std::vector<std::vector<std::int32_t>> rings, NcclProtocol protocol)
    : kind_(kNcclRing),
      cuts_{.n_channels = static_cast<std::int32_t>(rings.size()), .protocol = protocol},
      rings_(std::move(rings)),
      name_("nccl-ring") {
  name_ += word_of(protocol);
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

bool ReductionOrder::has_second_tree(std::int32_t channel) const {
  const std::int32_t period = cuts_.tree_period > 0 ? cuts_.tree_period : cuts_.n_channels;
  const std::int32_t at = channel % period;
  return at > 0 && 2 * at >= period;
}

std::span<const std::int32_t> ReductionOrder::ring(std::int32_t channel) const {
  if (rings_.empty()) return {};
  return rings_[static_cast<std::size_t>(channel)];
}

bool ReductionOrder::fits(std::int32_t n_ranks) const {
  return rings_.empty() || rings_[0].size() == static_cast<std::size_t>(n_ranks);
}

std::optional<ReductionOrder> parse_reduction_order(std::string_view name) {
  const std::size_t cut = name.find_first_of(".@:");
  std::string_view rest = cut == std::string_view::npos ? std::string_view{} : name.substr(cut);
  const auto kind = parse_kind(name.substr(0, cut));
  if (!kind) return std::nullopt;
  if (rest.empty()) return ReductionOrder(*kind);
  if (!ReductionOrder(*kind).is_nccl()) return std::nullopt;
  NcclCuts cuts;
  if (rest[0] == '.') {
    const auto protocol = parse_protocol(rest.substr(0, rest.find_first_of("@:")));
    if (!protocol) return std::nullopt;
    cuts.protocol = *protocol;
    rest.remove_prefix(word_of(*protocol).size());
  }
  if (rest.starts_with(':')) {
    if (kind != ReductionOrder::kNcclRing) return std::nullopt;
    return parse_rings(rest.substr(1), cuts.protocol);
  }
  if (!rest.empty() && !parse_channels(rest.substr(1), *kind, cuts)) return std::nullopt;
  return ReductionOrder(*kind, cuts);
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
