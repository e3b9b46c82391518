#include "lockstep/harness/gpu_record/faults.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <poll.h>

namespace lockstep {

namespace {

constexpr std::int64_t kCount = 4096;
constexpr std::int64_t kMuchMore = 1 << 20;
constexpr int kAwayMs = 20'000;   // Longer than any deadline of a recording.
constexpr std::int32_t kOdd = 1;  // The rank that diverges.

Tensor ones(ProcessGroup& group, std::int64_t n, DType dtype = DType::kF32) {
  return Tensor::full(group.runtime(), {n}, dtype, 1.0);
}

bool all_are(const Tensor& tensor, double value) {
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    if (tensor.at(i) != value) return false;
  }
  return true;
}

/// One operation, its tensor, and the value that it should end with.
struct Played {
  Work work;
  Tensor data;
  double expected = 0.0;
};

using Play = std::function<Played(ProcessGroup&, bool odd)>;

Played reduced(ProcessGroup& group, const Tensor& data, ReduceOp op = ReduceOp::kSum) {
  return {group.all_reduce(Memory::of(data), op), data, static_cast<double>(group.size())};
}

// Two buckets of one size: rank 1 reduces them in the other order.
Played swapped(ProcessGroup& group, bool odd) {
  const Tensor first = ones(group, kCount);
  const Tensor second = Tensor::full(group.runtime(), {kCount}, DType::kF32, 2.0);
  const Tensor& early = odd ? second : first;
  const Tensor& late = odd ? first : second;
  Work work = group.all_reduce(
      Memory::of(early), ReduceOp::kSum, {.layout = odd ? std::uint64_t{2} : std::uint64_t{1}});
  const Work other = group.all_reduce(
      Memory::of(late), ReduceOp::kSum, {.layout = odd ? std::uint64_t{1} : std::uint64_t{2}});
  (void)other.wait();
  return {std::move(work), first, static_cast<double>(group.size())};
}

// Rank 1 makes no call while the others wait for it.
Played absent(ProcessGroup& group, bool odd) {
  const Tensor data = ones(group, kCount);
  if (odd) (void)::poll(nullptr, 0, kAwayMs);
  return reduced(group, data);
}

Played killed(ProcessGroup& group, bool odd) {
  const Tensor warm = ones(group, kCount);
  (void)group.all_reduce(Memory::of(warm)).wait();
  if (odd) (void)std::raise(SIGKILL);
  return reduced(group, ones(group, kCount));
}

const std::map<std::string, Play>& plays() {
  static const std::map<std::string, Play> all = {
      {"op",
       [](ProcessGroup& group, bool odd) {
         return reduced(group, ones(group, kCount), odd ? ReduceOp::kProduct : ReduceOp::kSum);
       }},
      {"dtype",
       [](ProcessGroup& group, bool odd) {
         return reduced(group, ones(group, kCount, odd ? DType::kI32 : DType::kF32));
       }},
      {"count",
       [](ProcessGroup& group, bool odd) {
         return reduced(group, ones(group, odd ? kCount - 2 : kCount));
       }},
      {"count-much",
       [](ProcessGroup& group, bool odd) {
         return reduced(group, ones(group, odd ? kMuchMore : kCount));
       }},
      {"root",
       [](ProcessGroup& group, bool odd) {
         const Tensor data =
             Tensor::full(group.runtime(), {kCount}, DType::kF32, group.rank() + 1.0);
         return Played{group.broadcast(Memory::of(data), odd ? 1 : 0), data, 1.0};
       }},
      {"absent", absent},
      {"swap", swapped},
      {"skip",
       [](ProcessGroup& group, bool odd) {
         const Tensor data = ones(group, kCount);
         if (odd) return Played{group.barrier(), data, 1.0};
         return reduced(group, data);
       }},
      {"kill", killed},
  };
  return all;
}

}  // namespace

std::optional<FaultOutcome> play_fault(ProcessGroup& group, const std::string& name) {
  const auto found = plays().find(name);
  if (found == plays().end()) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  const Played played = found->second(group, group.rank() == kOdd);
  FaultOutcome outcome;
  const CommStatus status = played.work.wait();
  outcome.status = std::string(name_of(status));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.detail = played.work.detail();
  outcome.right = status == CommStatus::kOk && all_are(played.data, played.expected);
  return outcome;
}

}  // namespace lockstep
