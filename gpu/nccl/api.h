// Every call of NCCL and of the CUDA runtime that the process group makes, as one table: the real
// libraries implement it on machines that have them, an emulation on the CPU in tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::nccl {

/// ncclResult_t, by its numbers.
enum class Status : std::int32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

/// ncclDataType_t, by its numbers; those that tensors have.
enum class Type : std::int32_t {
  kI8 = 0,
  kU8 = 1,
  kI32 = 2,
  kI64 = 4,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBF16 = 9,
};

/// ncclRedOp_t, by its numbers; those that ncclRedOpCreatePreMulSum makes lie above.
enum class RedOp : std::int32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

/// cudaError_t: these two are distinguished, the rest has words (Api::cuda_text).
enum class CudaStatus : std::int32_t { kSuccess = 0, kNotReady = 600 };

struct UniqueId {
  std::array<char, 128> bytes{};
};

// Handles of the libraries. What they point to is the libraries' business.
struct CommHandle;
struct StreamHandle;
struct EventHandle;
using Comm = CommHandle*;
using Stream = StreamHandle*;
using Event = EventHandle*;

/// A reduction, broadcast or gathering as the library takes it.
struct Transfer {
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  ///< Elements; of each rank for all_gather and reduce_scatter.
  Type type = Type::kF32;
};

/// The table. Communicators are non-blocking: a call may return kInProgress, and async_error
/// reports when it has completed. Calls for one communicator come from one thread at a time.
class Api {
 public:
  Api() = default;
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  Api(Api&&) = delete;
  Api& operator=(Api&&) = delete;

  // -- NCCL: communicators
  /// Why header and library do not fit, or empty.
  virtual std::string version_mismatch() = 0;
  virtual std::int32_t library_version() = 0;  ///< 22809 is 2.28.9.
  virtual Status get_unique_id(UniqueId& id) = 0;
  virtual Status comm_init(Comm& comm,
                           std::int32_t size,
                           const UniqueId& id,
                           std::int32_t rank) = 0;
  /// `color` -1: this member is left out. `key` orders the new ranks. Answers before it is done:
  /// `comm` is written when async_error of the parent answers kSuccess, and has to last until then,
  /// or until the parent is aborted.
  virtual Status comm_split(Comm parent, std::int32_t color, std::int32_t key, Comm& comm) = 0;
  virtual Status async_error(Comm comm, Status& state) = 0;
  virtual Status comm_finalize(Comm comm) = 0;
  virtual Status comm_destroy(Comm comm) = 0;
  virtual Status comm_abort(Comm comm) = 0;
  virtual std::string last_error(Comm comm) = 0;

  // -- NCCL: operations, queued on a stream
  virtual Status group_start() = 0;
  virtual Status group_end() = 0;
  virtual Status all_reduce(const Transfer& data, RedOp op, Comm comm, Stream stream) = 0;
  virtual Status reduce(
      const Transfer& data, RedOp op, std::int32_t root, Comm comm, Stream stream) = 0;
  virtual Status broadcast(const Transfer& data, std::int32_t root, Comm comm, Stream stream) = 0;
  virtual Status all_gather(const Transfer& data, Comm comm, Stream stream) = 0;
  virtual Status reduce_scatter(const Transfer& data, RedOp op, Comm comm, Stream stream) = 0;
  virtual Status send(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) = 0;
  virtual Status recv(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) = 0;
  /// `scalar` is one element of `type` in host memory, read during the call.
  virtual Status create_premul_sum(RedOp& op, const void* scalar, Type type, Comm comm) = 0;
  virtual Status destroy_op(RedOp op, Comm comm) = 0;

  // -- CUDA
  virtual CudaStatus set_device(std::int32_t device) = 0;
  virtual CudaStatus create_stream(Stream& stream) = 0;  ///< Next to the default stream.
  virtual CudaStatus destroy_stream(Stream stream) = 0;
  virtual CudaStatus create_event(Event& event) = 0;
  virtual CudaStatus destroy_event(Event event) = 0;
  virtual CudaStatus record_event(Event event, Stream stream) = 0;  ///< Null: the default stream.
  virtual CudaStatus query_event(Event event) = 0;
  virtual CudaStatus wait_event(Stream stream, Event event) = 0;
  virtual CudaStatus allocate(void*& data, std::size_t n_bytes) = 0;
  virtual CudaStatus release(void* data) = 0;
  /// Between any of host, managed and device memory.
  virtual CudaStatus copy(void* to, const void* from, std::size_t n_bytes, Stream stream) = 0;
  virtual std::string cuda_text(CudaStatus status) = 0;
};

}  // namespace lockstep::nccl
