// The calls of a CUDA driver that gpu/fingerprint makes, with the host as the only device. A launch runs as late
// as a stream may run it: when it is waited for. So a caller that reads before reads nothing. With EMULATED_DRIVER=eager in
// the environment it runs at once, as stream order has it for what the host does to the tensors meanwhile.
//
// With `patient` a wait lasts until another thread of the program calls emulated_driver_release(), or a second; a wait in
// which none does fails unless it follows one in which one did.
//
// EMULATED_DRIVER=init, device, module, memory, launch or wait makes that call fail. With `capturing` all work is being
// captured into a graph, with `implicit` that of another stream is.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/gpu/fingerprint/chunk.h"

namespace {

using lockstep::fingerprint::Batch;

constexpr int kSuccess = 0;
constexpr int kNoDevice = 100;
constexpr int kNoContext = 201;
constexpr int kIllegalAddress = 700;
constexpr int kUnknown = 999;

bool is(std::string_view how) {
  const char* const which = std::getenv("EMULATED_DRIVER");  // NOLINT(concurrency-mt-unsafe)
  return which != nullptr && how == which;
}

bool fails(std::string_view call) { return is(call); }

void run(const Batch& batch, unsigned n_blocks) {
  for (unsigned block = 0; block < n_blocks; ++block) {
    batch.out[block] = chunk_on_host(batch, static_cast<std::int32_t>(block));
  }
}

/// Batches by stream, in their order, and the contexts that are current.
struct Machine {
  std::map<void*, std::vector<std::pair<Batch, unsigned>>> queued;
  std::vector<void*> contexts;
  int context = 0;  // Its address is the handle.
  std::map<void*, bool> drained;
  std::atomic<bool> released = false;
};

Machine& machine() {
  static Machine one;
  return one;
}

/// Whether others may run: a wait in which none did must follow one in which they could.
bool lets_others_run(void* stream) {
  bool& drained = machine().drained[stream];
  machine().released = false;
  for (int i = 0; i < 100 && !machine().released; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const bool well = machine().released || drained;
  drained = machine().released;
  return well;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
extern "C" {

int cuInit(unsigned /*flags*/) { return fails("init") ? kNoDevice : kSuccess; }

int cuDeviceGet(int* device, int ordinal) {
  if (fails("device") || ordinal != 0) return kNoDevice;
  *device = ordinal;
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int /*device*/) {
  *context = &machine().context;
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  machine().contexts.push_back(context);
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  if (machine().contexts.empty()) return kNoContext;
  *context = machine().contexts.back();
  machine().contexts.pop_back();
  return kSuccess;
}

int cuModuleLoadData(void** module, const void* image) {
  const bool has_kernel =
      std::strstr(static_cast<const char*>(image), "lockstep_fingerprints") != nullptr;
  *module = nullptr;
  if (machine().contexts.empty()) return kNoContext;
  return fails("module") || !has_kernel ? kUnknown : kSuccess;
}

int cuModuleGetFunction(void** function, void* /*module*/, const char* /*name*/) {
  *function = &machine();
  return kSuccess;
}

int cuMemHostAlloc(void** memory, std::size_t n_bytes, unsigned /*flags*/) {
  if (fails("memory")) return kUnknown;
  *memory = std::calloc(n_bytes, 1);  // NOLINT(cppcoreguidelines-no-malloc)
  return *memory != nullptr ? kSuccess : kUnknown;
}

int cuMemFreeHost(void* memory) {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
  return kSuccess;
}

int cuLaunchKernel(void* /*function*/,
                   unsigned grid_x,
                   unsigned grid_y,
                   unsigned grid_z,
                   unsigned block_x,
                   unsigned block_y,
                   unsigned block_z,
                   unsigned /*shared_bytes*/,
                   void* stream,
                   void** arguments,
                   void** /*extra*/) {
  if (machine().contexts.empty()) return kNoContext;
  if (fails("launch") || grid_y * grid_z * block_y * block_z != 1 ||
      block_x != lockstep::fingerprint::kThreads) {
    return kUnknown;
  }
  const auto& batch = *static_cast<const Batch*>(arguments[0]);
  if (is("eager") || is("patient")) {
    run(batch, grid_x);
  } else {
    machine().queued[stream].emplace_back(batch, grid_x);
  }
  return kSuccess;
}

int cuStreamSynchronize(void* stream) {
  if (machine().contexts.empty()) return kNoContext;
  if (is("patient") && !lets_others_run(stream)) return kUnknown;
  if (fails("wait")) {
    machine().queued.clear();  // After such an error a device runs nothing.
    return kIllegalAddress;
  }
  for (const auto& [batch, n_blocks] : machine().queued[stream]) run(batch, n_blocks);
  machine().queued.erase(stream);
  return kSuccess;
}

void emulated_driver_release() { machine().released = true; }

int cuStreamIsCapturing(void* /*stream*/, int* status) {
  if (machine().contexts.empty()) return kNoContext;
  *status = is("capturing") ? 1 : 0;
  return fails("implicit") ? kUnknown : kSuccess;
}

int cuGetErrorString(int result, const char** text) {
  *text = result == kIllegalAddress ? "an illegal memory access was encountered" : nullptr;
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
