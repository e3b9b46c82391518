// Where functors run: on the device, or on the host, at once or later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/gpu/cuda/memory_pool.h"

namespace lockstep::cuda {

class Stream;
enum class Fault : std::uint32_t;

enum class ExecutionTarget : std::uint8_t {
  kDevice,    ///< Queued on one stream of the current device.
  kHost,      ///< A loop on the host, at once.
  kHostLate,  ///< The same loop on the next wait: reads that come too early show without a GPU.
};

/// Runs functors (ops/) in the order in which they are given, one after the other.
///
/// Requires: used by one thread at a time.
class Executor {
 public:
  /// Errors: DeviceError when ExecutionTarget::kDevice has none.
  explicit Executor(ExecutionTarget place);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Executor(Executor&&) = delete;
  Executor& operator=(Executor&&) = delete;

  ExecutionTarget place() const { return place_; }

  /// The stream, or null on the host.
  const Stream* stream() const { return stream_.get(); }

  /// Queues f(i) for i in [0, n). F is trivially copyable. Defined in detail/launch.cuh.
  template <typename F>
  void run(std::int64_t n, const F& f);

  /// Something was queued on the stream by other means.
  void mark_busy() { busy_ = true; }

  /// Waits until everything queued has ended.
  /// Errors: ContractViolation where a functor met a label or an index that names nothing;
  ///     DeviceError.
  void settle() {
    if (busy_) wait();
  }

  /// A word into which functors write what is wrong.
  Fault* fault() const { return fault_; }

  /// Memory for results that the host reads after settle(): 64 KiB, the same at each call.
  void* scratch() const { return scratch_; }

  static constexpr std::size_t kScratchBytes = std::size_t{64} << 10U;

 private:
  /// The loop over a functor whose type is known here no more.
  using Loop = void (*)(const void* functor, std::int64_t n);

  /// A functor that waits, and its loop.
  struct Late {
    Loop loop;
    std::int64_t n;
    std::vector<std::byte> functor;
  };

  void run_on_host(Loop loop, const void* functor, std::size_t n_bytes, std::int64_t n);
  void wait();
  void throw_fault();

  ExecutionTarget place_;
  std::unique_ptr<Stream> stream_;
  std::vector<Late> late_;
  /// The fault's word and the scratch: host memory the device writes.
  std::byte* pinned_ = nullptr;
  Fault* fault_ = nullptr;
  void* scratch_ = nullptr;
  bool busy_ = false;
};

}  // namespace lockstep::cuda
