// *sum += sum over i of mix64(bits(in[i]) + (base + i + 1) * kGolden)   (mod 2^64)
//
// Reference: lockstep::sm64() in src/tensor/digest.cc, compared bit for bit in
//            tests/gpu/cuda/kernels_test.cc.
// Launch:    1-D grid, kBlockThreads threads; grid-stride, so any grid size is correct.
// Rounding:  none, integers only; the order of the additions does not matter.
#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/kernels/digest.h"
#include "lockstep/gpu/cuda/kernels/launch.h"

namespace lockstep::cuda {

namespace {

using Word = unsigned long long;  // The type of CUDA's 64-bit atomicAdd.

constexpr Word kGolden = 0x9E3779B97F4A7C15ULL;

__device__ Word mix64(Word z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

template <typename Bits>
__global__ void digest_kernel(Word* sum, const Bits* in, std::int64_t n_elems, Word base) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  Word own = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < n_elems;
       i += stride) {
    own += mix64(in[i] + (base + static_cast<Word>(i) + 1) * kGolden);
  }
  for (int offset = warpSize / 2; offset > 0; offset /= 2) {
    own += __shfl_down_sync(0xFFFFFFFFU, own, offset);
  }
  if (threadIdx.x % warpSize == 0) atomicAdd(sum, own);
}

template <typename Bits>
void launch(std::uint64_t* sum, const DigestInput& input, const Stream& stream) {
  static_assert(sizeof(Word) == sizeof(*sum));
  digest_kernel<<<grid_blocks(input.n_elems), kBlockThreads, 0, stream.handle()>>>(
      reinterpret_cast<Word*>(sum),
      static_cast<const Bits*>(input.data),
      input.n_elems,
      static_cast<Word>(input.base));
  check(cudaGetLastError(), "launch of digest_kernel");
}

}  // namespace

void add_digest(std::uint64_t* sum, const DigestInput& input, const Stream& stream) {
  if (input.n_elems == 0) return;
  switch (input.elem_bytes) {
    case 1:
      return launch<std::uint8_t>(sum, input, stream);
    case 2:
      return launch<std::uint16_t>(sum, input, stream);
    case 4:
      return launch<std::uint32_t>(sum, input, stream);
    case 8:
      return launch<std::uint64_t>(sum, input, stream);
    default:
      LOCKSTEP_CHECK(false, "elements of " + std::to_string(input.elem_bytes) + " bytes");
  }
}

}  // namespace lockstep::cuda
