#include "lockstep/comm/detail/nccl_order.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/core.h>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/comm/detail/blocks.h"
#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::detail {

namespace {

constexpr std::int64_t kGrainBytes = 16;
constexpr std::int64_t kCellBytes = std::int64_t{16} << 10;   // Of traffic.
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 10;  // Temporaries stay in cache.

// The most that a rank hands on at once: half of a Simple buffer of 4 MiB; of a buffer of 512 KiB an eighth,
// half of it flags; of one of 4,800 KiB an eighth, a sixteenth of it flags.
std::int64_t chunk_bytes(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kSimple:
      return std::int64_t{2} << 20;
    case NcclProtocol::kLl:
      return std::int64_t{32} << 10;
    case NcclProtocol::kLl128:
      return 576'000;
  }
  return 0;
}

std::int64_t rank_count(const RankReduction& job) {
  return static_cast<std::int64_t>(job.inputs.size());
}

bool premultiplies(const RankReduction& job) {
  return is_floating(job.dtype) && (job.op == ReduceOp::kAvg || job.op == ReduceOp::kPremulSum);
}

// One range of the elements, folded hop by hop.
class Folder {
 public:
  Folder(Kernels& kernels, const RankReduction& job)
      : kernels_(&kernels),
        job_(&job),
        elem_bytes_(size_of(job.dtype)),
        block_(kBlockBytes / elem_bytes_),
        scaled_(premultiplies(job)) {
    const double n = static_cast<double>(rank_count(job));
    if (scaled_) {
      factor_ = rounded_factor(job.op == ReduceOp::kAvg ? 1.0 / n : job.premul, job.dtype);
    }
  }

  // ((x[hops[0]] + x[hops[1]]) + ...) for the elements [begin, end).
  void fold(std::span<const std::int32_t> hops, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (scaled_) {
      for (std::int64_t at = begin; at < end; at += block_) {
        fold_scaled(hops, at, std::min(block_, end - at));
      }
      return;
    }
    inputs_.clear();
    for (const std::int32_t rank : hops) inputs_.push_back(input(rank, begin));
    kernels_->reduce(outputs(begin), inputs_, end - begin, job_->dtype, job_->op);
  }

  void fold_tree(const Tree& tree, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += block_) {
      climb(tree, at, std::min(block_, end - at));
    }
  }

 private:
  struct PathNode {
    std::int32_t rank = 0;
    std::size_t n_done = 0;  // Children whose sums have been added.
  };

  const void* input(std::int32_t rank, std::int64_t at) const {
    return static_cast<const std::byte*>(job_->inputs[static_cast<std::size_t>(rank)]) +
           at * elem_bytes_;
  }

  std::span<void* const> outputs(std::int64_t at) {
    outputs_.clear();
    for (void* output : job_->outputs) {
      outputs_.push_back(static_cast<std::byte*>(output) + at * elem_bytes_);
    }
    return outputs_;
  }

  std::byte* level(std::size_t depth) {
    while (levels_.size() <= depth) {
      levels_.emplace_back(static_cast<std::size_t>(block_ * elem_bytes_));
    }
    return levels_[depth].data();
  }

  void publish(const std::byte* sum, std::int64_t at, std::int64_t n) {
    for (void* output : outputs(at)) {
      std::memcpy(output, sum, static_cast<std::size_t>(n * elem_bytes_));
    }
  }

  void fold_scaled(std::span<const std::int32_t> hops, std::int64_t at, std::int64_t n) {
    std::byte* sum = level(0);
    scale(sum, input(hops[0], at), factor_, n, job_->dtype);
    for (const std::int32_t rank : hops.subspan(1)) {
      scale_and_add(sum, input(rank, at), factor_, sum, n, job_->dtype);
    }
    publish(sum, at, n);
  }

  // A seat's own value joins with its first child's sum, the other children follow: depth first,
  // one temporary a level.
  void climb(const Tree& tree, std::int64_t at, std::int64_t n) {
    path_.assign(1, {.rank = tree.root, .n_done = 0});
    for (;;) {
      const PathNode& seat = path_.back();
      const auto& children = tree.children[static_cast<std::size_t>(seat.rank)];
      if (seat.n_done < children.size()) {
        path_.push_back({.rank = children[seat.n_done], .n_done = 0});
        continue;
      }
      if (children.empty()) start(seat.rank, at, n);
      if (path_.size() == 1) break;
      path_.pop_back();
      join(at, n);
    }
    finish_average(n);
    publish(level(0), at, n);
  }

  // A leaf hands its own value up.
  void start(std::int32_t rank, std::int64_t at, std::int64_t n) {
    std::byte* sum = level(path_.size() - 1);
    if (scaled_) return scale(sum, input(rank, at), factor_, n, job_->dtype);
    std::memcpy(sum, input(rank, at), static_cast<std::size_t>(n * elem_bytes_));
  }

  // The sum one level down belongs to the next child of the last seat.
  void join(std::int64_t at, std::int64_t n) {
    const std::size_t depth = path_.size() - 1;
    level(depth + 1);
    std::byte* sum = level(depth);
    const std::byte* child = level(depth + 1);
    PathNode& seat = path_.back();
    const bool first = seat.n_done++ == 0;
    if (first && scaled_) {
      return scale_and_add(sum, input(seat.rank, at), factor_, child, n, job_->dtype);
    }
    add(sum, first ? input(seat.rank, at) : sum, child, n);
  }

  void add(std::byte* out, const void* left, const void* right, std::int64_t n) {
    void* target = out;
    const std::array<const void*, 2> pair = {left, right};
    const bool sums = job_->op == ReduceOp::kAvg || job_->op == ReduceOp::kPremulSum;
    kernels_->reduce(
        std::span<void* const>(&target, 1), pair, n, job_->dtype, sums ? ReduceOp::kSum : job_->op);
  }

  // Integers are divided at the end: the sum and N - 1 zeros average to it.
  void finish_average(std::int64_t n) {
    if (scaled_ || job_->op != ReduceOp::kAvg) return;
    void* sum = level(0);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(n * elem_bytes_));
    inputs_.assign(job_->inputs.size(), zeros.data());
    inputs_[0] = sum;
    kernels_->reduce(std::span<void* const>(&sum, 1), inputs_, n, job_->dtype, ReduceOp::kAvg);
  }

  Kernels* kernels_;
  const RankReduction* job_;
  std::int64_t elem_bytes_;
  std::int64_t block_;
  bool scaled_;
  double factor_ = 1.0;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<std::vector<std::byte>> levels_;
  std::vector<PathNode> path_;
};

std::vector<std::int32_t> ring_of(const ReductionOrder& order,
                                  std::int32_t channel,
                                  std::size_t n) {
  const std::span<const std::int32_t> listed = order.ring(channel);
  std::vector<std::int32_t> ring(listed.begin(), listed.end());
  if (ring.size() == n) return ring;
  ring.resize(n);
  for (std::size_t r = 0; r < n; ++r) ring[r] = static_cast<std::int32_t>(r);
  return ring;
}

// The chain that ends at position `last` of the ring.
void hops_to(std::vector<std::int32_t>& hops,
             const std::vector<std::int32_t>& ring,
             std::size_t last) {
  hops.clear();
  for (std::size_t k = 1; k <= ring.size(); ++k) hops.push_back(ring[(last + k) % ring.size()]);
}

/// The elements of one channel.
struct ChannelPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void all_reduce_ring(Folder& folder,
                     const std::vector<std::int32_t>& ring,
                     std::int64_t elem_bytes,
                     NcclProtocol protocol,
                     const ChannelPart& part) {
  const auto n = static_cast<std::int64_t>(ring.size());
  std::vector<std::int32_t> hops;
  std::int64_t chunk = 0;
  for (std::int64_t loop = part.begin; loop < part.end; loop += n * chunk) {
    chunk = nccl_loop_chunk(part.end - loop, elem_bytes, n, protocol);
    for (std::int64_t c = 0; c < n; ++c) {
      const std::int64_t first = loop + c * chunk;
      hops_to(hops, ring, static_cast<std::size_t>(c));
      folder.fold(hops, first, std::min(first + chunk, part.end));
    }
  }
}

void reduce_ring(Folder& folder, const RankReduction& job, const ReductionOrder& order) {
  const std::int64_t n = rank_count(job);
  const bool turns = job.last == RankReduction::kTakeTurns;
  const std::int64_t traffic = turns ? 2 : (job.total != 0 ? n : 1);
  const std::int64_t elem_bytes = size_of(job.dtype);
  const auto ends = channel_ends(
      job.count, elem_bytes, order.n_channels(), traffic_of(traffic, order.protocol()));
  std::vector<std::int32_t> hops;
  std::int64_t begin = 0;
  for (std::size_t channel = 0; channel < ends.size(); ++channel) {
    const auto ring = ring_of(order, static_cast<std::int32_t>(channel), job.inputs.size());
    if (turns) {
      all_reduce_ring(folder, ring, elem_bytes, order.protocol(), {begin, ends[channel]});
    } else {
      const auto last = std::find(ring.begin(), ring.end(), job.last) - ring.begin();
      hops_to(hops, ring, static_cast<std::size_t>(last));
      folder.fold(hops, begin, ends[channel]);
    }
    begin = ends[channel];
  }
}

}  // namespace

std::int64_t nccl_loop_chunk(std::int64_t n_left,
                             std::int64_t elem_bytes,
                             std::int64_t n_ranks,
                             NcclProtocol protocol) {
  return std::min(chunk_bytes(protocol) / elem_bytes,
                  round_up(ceil_div(n_left, n_ranks), kGrainBytes / elem_bytes));
}

std::vector<std::int64_t> channel_ends(std::int64_t count,
                                       std::int64_t elem_bytes,
                                       std::int32_t n_channels,
                                       std::int64_t traffic) {
  if (n_channels == 1) return {count};
  const std::int64_t cell = round_up(ceil_div(kCellBytes, traffic), kGrainBytes);
  const std::int64_t target = std::max(kCellBytes, count * elem_bytes * traffic / n_channels);
  const std::int64_t part = ceil_div(target, cell * traffic) * cell / elem_bytes;
  std::vector<std::int64_t> ends;
  for (std::int32_t channel = 1; channel < n_channels && part * channel < count; ++channel) {
    ends.push_back(part * channel);
  }
  ends.push_back(count);
  return ends;
}

namespace {

// The lowest set bit, or for 0 the first power of two from n on.
std::int32_t height_of(std::int32_t place, std::int32_t n) {
  std::int32_t bit = 1;
  while (bit < n && (place & bit) == 0) bit *= 2;
  return bit;
}

}  // namespace

// In the first tree, rank r stands as high as its lowest set bit says; rank 0 is above all.
Tree make_nccl_tree(std::int32_t n_ranks, bool second) {
  LOCKSTEP_CHECK(n_ranks >= 1, fmt::format("a tree of {} ranks: it has one at least", n_ranks));
  const auto name = [&](std::int32_t place) {
    if (!second) return place;
    return n_ranks % 2 == 0 ? n_ranks - 1 - place : (place + 1) % n_ranks;
  };
  Tree tree;
  tree.root = name(0);
  tree.children.resize(static_cast<std::size_t>(n_ranks));
  for (std::int32_t place = 0; place < n_ranks; ++place) {
    auto& children = tree.children[static_cast<std::size_t>(name(place))];
    std::int32_t step = height_of(place, n_ranks) / 2;
    if (place != 0 && step > 0) children.push_back(name(place - step));
    while (step > 0 && place + step >= n_ranks) step /= 2;
    if (step > 0) children.push_back(name(place + step));
  }
  return tree;
}

void reduce_as_nccl(Kernels& kernels, const RankReduction& job, const ReductionOrder& order) {
  Folder folder(kernels, job);
  if (order.kind() == ReductionOrder::kNcclRing || job.last != RankReduction::kTakeTurns) {
    return reduce_ring(folder, job, order);
  }
  const auto ends = channel_ends(
      job.count, size_of(job.dtype), order.n_channels(), traffic_of(2, order.protocol()));
  std::int64_t begin = 0;
  for (std::size_t channel = 0; channel < ends.size(); ++channel) {
    const bool second = order.has_second_tree(static_cast<std::int32_t>(channel));
    const Tree tree = make_nccl_tree(static_cast<std::int32_t>(job.inputs.size()), second);
    folder.fold_tree(tree, begin, ends[channel]);
    begin = ends[channel];
  }
}

}  // namespace lockstep::detail
