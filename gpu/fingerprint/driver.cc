#include "lockstep/gpu/fingerprint/driver.h"

#include <dlfcn.h>

namespace lockstep::fingerprint {

namespace {

/// Fills the table from a library; keeps the first name that it lacks.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename F>
  void find(F& call, const char* name) {
    call = reinterpret_cast<F>(::dlsym(library_, name));
    if (call == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace

Result<Driver> Driver::open(const std::string& library) {
  // It stays open: CUDA's libraries cannot be unloaded before the process ends.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Error{"this process finds no CUDA driver (" + library + ")", ""};
  Symbols symbols(handle);
  Driver driver;
  symbols.find(driver.init, "cuInit");
  symbols.find(driver.device, "cuDeviceGet");
  symbols.find(driver.retain_context, "cuDevicePrimaryCtxRetain");
  symbols.find(driver.push_context, "cuCtxPushCurrent_v2");
  symbols.find(driver.pop_context, "cuCtxPopCurrent_v2");
  symbols.find(driver.load_module, "cuModuleLoadData");
  symbols.find(driver.function, "cuModuleGetFunction");
  symbols.find(driver.allocate_host, "cuMemHostAlloc");
  symbols.find(driver.free_host, "cuMemFreeHost");
  symbols.find(driver.launch, "cuLaunchKernel");
  symbols.find(driver.wait, "cuStreamSynchronize");
  symbols.find(driver.is_capturing, "cuStreamIsCapturing");
  symbols.find(driver.text, "cuGetErrorString");
  if (!symbols.missing().empty()) return Error{library + " has no " + symbols.missing(), ""};
  return driver;
}

}  // namespace lockstep::fingerprint
