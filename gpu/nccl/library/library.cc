#include "lockstep/gpu/nccl/library/library.h"

#include <cstring>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/nccl/library/version.h"

namespace lockstep::nccl {

namespace {

// The table's numbers are the libraries' own.
static_assert(static_cast<int>(Status::kUnhandledCudaError) == ncclUnhandledCudaError);
static_assert(static_cast<int>(Status::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(Status::kInternalError) == ncclInternalError);
static_assert(static_cast<int>(Status::kInvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(Status::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(Status::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(Status::kInProgress) == ncclInProgress);
static_assert(static_cast<int>(Type::kI8) == ncclInt8 && static_cast<int>(Type::kU8) == ncclUint8);
static_assert(static_cast<int>(Type::kI32) == ncclInt32);
static_assert(static_cast<int>(Type::kI64) == ncclInt64);
static_assert(static_cast<int>(Type::kF16) == ncclFloat16);
static_assert(static_cast<int>(Type::kF32) == ncclFloat32);
static_assert(static_cast<int>(Type::kF64) == ncclFloat64);
static_assert(static_cast<int>(Type::kBF16) == ncclBfloat16);
static_assert(static_cast<int>(RedOp::kSum) == ncclSum &&
              static_cast<int>(RedOp::kProd) == ncclProd);
static_assert(static_cast<int>(RedOp::kMax) == ncclMax && static_cast<int>(RedOp::kMin) == ncclMin);
static_assert(static_cast<int>(RedOp::kAvg) == ncclAvg);
static_assert(static_cast<int>(CudaStatus::kNotReady) == cudaErrorNotReady);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

Status status_of(ncclResult_t result) { return static_cast<Status>(result); }

CudaStatus status_of(cudaError_t error) { return static_cast<CudaStatus>(error); }

ncclComm_t real(Comm comm) { return reinterpret_cast<ncclComm_t>(comm); }

// Where the library writes a communicator, for a split later and from a thread of its own: into the
// caller's own place, not into a copy of it.
ncclComm_t* place_of(Comm& comm) { return reinterpret_cast<ncclComm_t*>(&comm); }

cudaStream_t real(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

cudaEvent_t real(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

ncclDataType_t real(Type type) { return static_cast<ncclDataType_t>(type); }

ncclRedOp_t real(RedOp op) { return static_cast<ncclRedOp_t>(op); }

class Library final : public Api {
 public:
  std::string version_mismatch() override { return mismatch(versions()).value_or(std::string()); }

  std::int32_t library_version() override { return versions().library; }

  Status get_unique_id(UniqueId& id) override {
    ncclUniqueId made{};
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.bytes.data(), &made, sizeof made);
    return status_of(result);
  }

  Status comm_init(Comm& comm, std::int32_t size, const UniqueId& id, std::int32_t rank) override {
    ncclUniqueId real_id{};
    std::memcpy(&real_id, id.bytes.data(), sizeof real_id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return status_of(ncclCommInitRankConfig(place_of(comm), size, real_id, rank, &config));
  }

  Status comm_split(Comm parent, std::int32_t color, std::int32_t key, Comm& comm) override {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const int part = color < 0 ? NCCL_SPLIT_NOCOLOR : color;
    return status_of(ncclCommSplit(real(parent), part, key, place_of(comm), &config));
  }

  Status async_error(Comm comm, Status& state) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(real(comm), &found);
    state = status_of(found);
    return status_of(result);
  }

  Status comm_finalize(Comm comm) override { return status_of(ncclCommFinalize(real(comm))); }

  Status comm_destroy(Comm comm) override { return status_of(ncclCommDestroy(real(comm))); }

  Status comm_abort(Comm comm) override { return status_of(ncclCommAbort(real(comm))); }

  std::string last_error(Comm comm) override {
    const char* text = ncclGetLastError(real(comm));
    return text == nullptr ? std::string() : std::string(text);
  }

  Status group_start() override { return status_of(ncclGroupStart()); }

  Status group_end() override { return status_of(ncclGroupEnd()); }

  Status all_reduce(const Transfer& data, RedOp op, Comm comm, Stream stream) override {
    return status_of(ncclAllReduce(
        data.send, data.recv, data.count, real(data.type), real(op), real(comm), real(stream)));
  }

  Status reduce(
      const Transfer& data, RedOp op, std::int32_t root, Comm comm, Stream stream) override {
    return status_of(ncclReduce(data.send,
                                data.recv,
                                data.count,
                                real(data.type),
                                real(op),
                                root,
                                real(comm),
                                real(stream)));
  }

  Status broadcast(const Transfer& data, std::int32_t root, Comm comm, Stream stream) override {
    return status_of(ncclBroadcast(
        data.send, data.recv, data.count, real(data.type), root, real(comm), real(stream)));
  }

  Status all_gather(const Transfer& data, Comm comm, Stream stream) override {
    return status_of(
        ncclAllGather(data.send, data.recv, data.count, real(data.type), real(comm), real(stream)));
  }

  Status reduce_scatter(const Transfer& data, RedOp op, Comm comm, Stream stream) override {
    return status_of(ncclReduceScatter(
        data.send, data.recv, data.count, real(data.type), real(op), real(comm), real(stream)));
  }

  Status send(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) override {
    return status_of(
        ncclSend(data.send, data.count, real(data.type), peer, real(comm), real(stream)));
  }

  Status recv(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) override {
    return status_of(
        ncclRecv(data.recv, data.count, real(data.type), peer, real(comm), real(stream)));
  }

  Status create_premul_sum(RedOp& op, const void* scalar, Type type, Comm comm) override {
    ncclRedOp_t made = ncclSum;
    // NCCL only reads the scalar; its interface is older than const.
    const ncclResult_t result = ncclRedOpCreatePreMulSum(&made,
                                                         const_cast<void*>(scalar),  // NOLINT
                                                         real(type),
                                                         ncclScalarHostImmediate,
                                                         real(comm));
    op = static_cast<RedOp>(made);
    return status_of(result);
  }

  Status destroy_op(RedOp op, Comm comm) override {
    return status_of(ncclRedOpDestroy(real(op), real(comm)));
  }

  CudaStatus set_device(std::int32_t device) override { return status_of(cudaSetDevice(device)); }

  CudaStatus create_stream(Stream& stream) override {
    cudaStream_t made = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    stream = reinterpret_cast<Stream>(made);
    return status_of(error);
  }

  CudaStatus destroy_stream(Stream stream) override {
    return status_of(cudaStreamDestroy(real(stream)));
  }

  CudaStatus create_event(Event& event) override {
    cudaEvent_t made = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    event = reinterpret_cast<Event>(made);
    return status_of(error);
  }

  CudaStatus destroy_event(Event event) override {
    return status_of(cudaEventDestroy(real(event)));
  }

  CudaStatus record_event(Event event, Stream stream) override {
    return status_of(cudaEventRecord(real(event), real(stream)));
  }

  CudaStatus query_event(Event event) override { return status_of(cudaEventQuery(real(event))); }

  CudaStatus wait_event(Stream stream, Event event) override {
    return status_of(cudaStreamWaitEvent(real(stream), real(event), 0));
  }

  CudaStatus allocate(void*& data, std::size_t n_bytes) override {
    return status_of(cudaMalloc(&data, n_bytes));
  }

  CudaStatus release(void* data) override { return status_of(cudaFree(data)); }

  CudaStatus copy(void* to, const void* from, std::size_t n_bytes, Stream stream) override {
    return status_of(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, real(stream)));
  }

  std::string cuda_text(CudaStatus status) override {
    return cuda::describe(static_cast<cudaError_t>(status));
  }
};

}  // namespace

std::shared_ptr<Api> make_library() { return std::make_shared<Library>(); }

}  // namespace lockstep::nccl
