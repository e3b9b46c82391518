// The part of tensors' fingerprints that one block of threads computes, for the kernel and, in the same
// order, for a loop on the host.
//
//   elements of a tensor   | chunk 0: kPerChunk of them | chunk 1 | ... | the rest |
//   thread t of a chunk    elements t, t + kThreads, t + 2 kThreads, ... of the chunk, in this order
//   threads together       t += t + kThreads/2, then t += t + kThreads/4, ..., 0 += 1
//   chunks together        in their order, by the host
//
// So the sums of a sketch depend on the elements and their places alone, as on the processor. There the
// order is another one (sketch.h): the last bits may differ, digests do not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"

#ifdef __CUDACC__
#define LOCKSTEP_HOST_AND_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_AND_DEVICE
#endif

namespace lockstep::fingerprint {

constexpr int kThreads = 128;
constexpr std::int64_t kPerChunk = 8192;

constexpr std::int64_t chunks_of(std::int64_t n_elems) {
  return (n_elems + kPerChunk - 1) / kPerChunk;
}

/// A tensor in a device's memory, contiguous.
struct Elements {
  const void* data;
  std::int64_t n_elems;
  DType dtype;
  bool sketched;  ///< Requires a floating-point dtype.
};

/// What a thread, a block or a whole tensor comes to.
struct Partial {
  std::uint64_t digest;
  double l1;
  double sums[4];

  LOCKSTEP_HOST_AND_DEVICE void add(const Partial& other) {
    digest += other.digest;
    l1 += other.l1;
    for (int j = 0; j < 4; ++j) sums[j] += other.sums[j];
  }
};

/// Tensors of one launch. It travels as the kernel's argument, of which 4,096 bytes is the most that every
/// device takes.
struct Batch {
  static constexpr std::size_t kMost = 100;

  Elements tensors[kMost];
  std::int32_t end[kMost];  ///< The first block that is not of this tensor.
  Partial* out;             ///< One for each block.
};

static_assert(sizeof(Batch) <= 4096);

/// A tensor of the batch, and which of its chunks a block has.
struct Place {
  int tensor;
  std::int64_t chunk;
};

LOCKSTEP_HOST_AND_DEVICE inline Place place_of(const Batch& batch, std::int32_t block) {
  int tensor = 0;
  while (batch.end[tensor] <= block) ++tensor;
  return {tensor, block - (tensor == 0 ? 0 : batch.end[tensor - 1])};
}

template <typename T, typename Bits>
LOCKSTEP_HOST_AND_DEVICE Partial strand_of(const Elements& tensor, std::int64_t chunk, int thread) {
  Partial sum{};
  const auto* const values = static_cast<const T*>(tensor.data);
  const auto* const bits = static_cast<const Bits*>(tensor.data);
  const std::int64_t past = (chunk + 1) * kPerChunk;
  const std::int64_t end = past < tensor.n_elems ? past : tensor.n_elems;
  for (std::int64_t i = chunk * kPerChunk + thread; i < end; i += kThreads) {
    const std::uint64_t key = (static_cast<std::uint64_t>(i) + 1) * kGolden64;
    sum.digest += mix64(bits[i] + key);
    if (!tensor.sketched) continue;
    const double value = static_cast<double>(lockstep::detail::load(values[i]));
    const std::uint64_t signs = mix64(key);
    sum.l1 += value < 0.0 ? -value : value;
    for (unsigned j = 0; j < 4; ++j) sum.sums[j] += (signs >> j) % 2 == 1 ? -value : value;
  }
  return sum;
}

/// What one thread of a block adds up.
LOCKSTEP_HOST_AND_DEVICE inline Partial strand_of(const Elements& tensor,
                                                  std::int64_t chunk,
                                                  int thread) {
  switch (tensor.dtype) {
    case DType::kF64:
      return strand_of<double, std::uint64_t>(tensor, chunk, thread);
    case DType::kF32:
      return strand_of<float, std::uint32_t>(tensor, chunk, thread);
    case DType::kF16:
      return strand_of<lockstep::detail::Half, std::uint16_t>(tensor, chunk, thread);
    case DType::kBF16:
      return strand_of<lockstep::detail::BFloat, std::uint16_t>(tensor, chunk, thread);
    case DType::kI64:
      return strand_of<std::int64_t, std::uint64_t>(tensor, chunk, thread);
    case DType::kI32:
      return strand_of<std::int32_t, std::uint32_t>(tensor, chunk, thread);
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return strand_of<std::uint8_t, std::uint8_t>(tensor, chunk, thread);
}

/// What a block of the kernel writes.
inline Partial chunk_on_host(const Batch& batch, std::int32_t block) {
  const Place place = place_of(batch, block);
  Partial strands[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    strands[t] = strand_of(batch.tensors[place.tensor], place.chunk, t);
  }
  for (int half = kThreads / 2; half > 0; half /= 2) {
    for (int t = 0; t < half; ++t) strands[t].add(strands[t + half]);
  }
  return strands[0];
}

}  // namespace lockstep::fingerprint
