#include "lockstep/gpu/cuda/executor.h"

#include <new>
#include <utility>

#include <cuda_runtime_api.h>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/fault.h"
#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kFaultBytes = 256;  // The scratch after it stays aligned.
constexpr std::size_t kPinnedBytes = kFaultBytes + Executor::kScratchBytes;

const char* meaning_of(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "nothing is wrong";
    case Fault::kLabel:
      return "a label names one of the classes";
    case Fault::kRow:
      return "an index names a row of the table";
    case Fault::kPosition:
      return "a position lies in the plane of its window";
  }
  return "a kernel reports a known fault";
}

}  // namespace

Executor::Executor(ExecutionTarget place) : place_(place) {
  void* pinned = nullptr;
  if (place == ExecutionTarget::kDevice) {
    stream_ = std::make_unique<Stream>();
    check(cudaHostAlloc(&pinned, kPinnedBytes, cudaHostAllocMapped), "cudaHostAlloc");
  } else {
    pinned = ::operator new (kPinnedBytes, std::align_val_t{kFaultBytes});
  }
  pinned_ = static_cast<std::byte*>(pinned);
  fault_ = ::new (pinned) Fault{Fault::kNone};
  scratch_ = pinned_ + kFaultBytes;
}

Executor::~Executor() {
  if (place_ == ExecutionTarget::kDevice) {
    // A destructor cannot report errors; a broken device fails the next call.
    static_cast<void>(cudaStreamSynchronize(stream_->handle()));
    static_cast<void>(cudaFreeHost(pinned_));
  } else {
    ::operator delete (pinned_, std::align_val_t{kFaultBytes});
  }
}

void Executor::run_on_host(Loop loop, const void* functor, std::size_t n_bytes, std::int64_t n) {
  if (place_ == ExecutionTarget::kHost) {
    loop(functor, n);
    return settle();
  }
  const auto* const bytes = static_cast<const std::byte*>(functor);
  late_.push_back({loop, n, {bytes, bytes + n_bytes}});
}

void Executor::wait() {
  busy_ = false;
  if (place_ == ExecutionTarget::kDevice) stream_->synchronize();
  const std::vector<Late> all = std::exchange(late_, {});
  for (const Late& late : all) late.loop(late.functor.data(), late.n);
  throw_fault();
}

void Executor::throw_fault() {
  const Fault found = std::exchange(*fault_, Fault::kNone);
  LOCKSTEP_CHECK(found == Fault::kNone, meaning_of(found));
}

}  // namespace lockstep::cuda
