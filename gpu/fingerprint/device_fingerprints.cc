#include "lockstep/gpu/fingerprint/device_fingerprints.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/gpu/fingerprint/code.h"

namespace lockstep::fingerprint {

namespace {

constexpr std::int64_t kPerSlab = 8192;    // Partials: 384 KiB, of 64 million elements.
constexpr unsigned kSeenByAllDevices = 3;  // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP.
constexpr const char* kKernel = "lockstep_fingerprints";

/// The driver's answer to waiting for the stream.
int waited(const DeviceFingerprints::Stream& stream) {
  void* previous = nullptr;
  const int entered = stream.driver.push_context(stream.context);
  if (entered != 0) return entered;
  const int result = stream.driver.wait(stream.stream);
  (void)stream.driver.pop_context(&previous);
  return result;
}

TensorFingerprint whole(const Partial* first, std::int64_t n_chunks) {
  Partial sum{};
  for (std::int64_t i = 0; i < n_chunks; ++i) sum.add(first[i]);
  TensorFingerprint print{.digest = sum.digest, .sketch = {.l1 = sum.l1}};
  std::copy(std::begin(sum.sums), std::end(sum.sums), print.sketch.sums.begin());
  return print;
}

}  // namespace

Result<DeviceFingerprints> DeviceFingerprints::open(const std::string& library) {
  if (kernel_code().empty()) return Error{"Lockstep was built without nvcc", ""};
  const Result<Driver> driver = Driver::open(library);
  if (!driver.ok()) return driver.error();
  DeviceFingerprints prints(driver.value());
  int first = 0;
  if (prints.driver_.init(0) != 0 || prints.driver_.device(&first, 0) != 0) {
    return Error{"the CUDA driver finds no device", ""};
  }
  return prints;
}

DeviceFingerprints::~DeviceFingerprints() {
  for (const Slab& slab : slabs_) (void)driver_.free_host(slab.partials);
}

std::string DeviceFingerprints::said(int result, const char* call) const {
  const char* words = nullptr;
  (void)driver_.text(result, &words);
  return std::string("the CUDA driver failed in ") + call + ": " +
         (words != nullptr ? words : "error " + std::to_string(result));
}

void DeviceFingerprints::check(int result, const char* call) const {
  if (result != 0) throw std::runtime_error(said(result, call));
}

Result<DeviceFingerprints::Device> DeviceFingerprints::opened(int ordinal) const {
  Device fresh;
  int number = 0;
  int result = driver_.device(&number, ordinal);
  if (result != 0) return Error{said(result, "cuDeviceGet"), ""};
  // That of the runtime, and so of PyTorch.
  result = driver_.retain_context(&fresh.context, number);
  if (result != 0) return Error{said(result, "cuDevicePrimaryCtxRetain"), ""};
  void* module = nullptr;
  void* previous = nullptr;
  check(driver_.push_context(fresh.context), "cuCtxPushCurrent");
  const int loaded = driver_.load_module(&module, kernel_code().data());
  const int found = loaded == 0 ? driver_.function(&fresh.kernel, module, kKernel) : loaded;
  check(driver_.pop_context(&previous), "cuCtxPopCurrent");
  if (found == 0) return fresh;
  return Error{said(found, loaded == 0 ? "cuModuleGetFunction" : "cuModuleLoadData"), ""};
}

Outcome DeviceFingerprints::ready(int device) {
  if (devices_.contains(device)) return success();
  const Result<Device> fresh = opened(device);
  if (!fresh.ok()) return fresh.error();
  devices_.emplace(device, fresh.value());
  return success();
}

const DeviceFingerprints::Device& DeviceFingerprints::device(int ordinal) {
  const Outcome made = ready(ordinal);
  if (!made.ok()) throw std::runtime_error(made.error().message);
  return devices_.at(ordinal);
}

bool DeviceFingerprints::is_capturing(const Where& where) {
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  void* previous = nullptr;
  check(driver_.push_context(device(where.device).context), "cuCtxPushCurrent");
  const int asked = driver_.is_capturing(where.stream, &status);
  check(driver_.pop_context(&previous), "cuCtxPopCurrent");
  // The default stream refuses the question while another one of its device captures.
  return asked != 0 || status != 0;
}

Partial* DeviceFingerprints::partials(std::int64_t n, const Device& device) {
  while (slab_ < slabs_.size() && used_ + n > slabs_[slab_].n) {
    ++slab_;
    used_ = 0;
  }
  if (slab_ == slabs_.size()) {
    const std::int64_t size = std::max(n, kPerSlab);
    void* memory = nullptr;
    void* previous = nullptr;
    check(driver_.push_context(device.context), "cuCtxPushCurrent");
    const int given = driver_.allocate_host(
        &memory, static_cast<std::size_t>(size) * sizeof(Partial), kSeenByAllDevices);
    check(driver_.pop_context(&previous), "cuCtxPopCurrent");
    check(given, "cuMemHostAlloc");
    slabs_.push_back({static_cast<Partial*>(memory), size});
  }
  Partial* const first = slabs_[slab_].partials + used_;
  used_ += n;
  return first;
}

DeviceFingerprints::Ticket DeviceFingerprints::ask(const Elements& tensor, const Where& where) {
  LOCKSTEP_CHECK(!tensor.sketched || is_floating(tensor.dtype),
                 "only floating-point tensors have a sketch");
  if (!asked_.empty() && (where != where_ || asked_.size() == Batch::kMost)) launch();
  where_ = where;
  asked_.push_back(tensor);
  requests_.push_back({nullptr, chunks_of(tensor.n_elems)});
  return requests_.size() - 1;
}

void DeviceFingerprints::launch() {
  if (asked_.empty()) return;
  Batch batch{};
  std::int64_t n_blocks = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    batch.tensors[i] = asked_[i];
    n_blocks += chunks_of(asked_[i].n_elems);
    batch.end[i] = static_cast<std::int32_t>(n_blocks);
  }
  LOCKSTEP_CHECK(n_blocks <= INT32_MAX, "more elements than blocks of a launch can have");
  const std::size_t first = requests_.size() - asked_.size();
  asked_.clear();  // Where the launch fails they stay without an answer.
  const Device& device = this->device(where_.device);
  batch.out = partials(n_blocks, device);
  if (n_blocks > 0) run(batch, n_blocks, device);
  const Partial* next = batch.out;
  for (std::size_t i = first; i < requests_.size(); ++i) {
    requests_[i].first = next;
    next += requests_[i].n_chunks;
  }
}

void DeviceFingerprints::run(Batch& batch, std::int64_t n_blocks, const Device& device) {
  std::array<void*, 1> arguments = {&batch};
  void* previous = nullptr;
  check(driver_.push_context(device.context), "cuCtxPushCurrent");
  const int launched = driver_.launch(device.kernel,
                                      static_cast<unsigned>(n_blocks),
                                      1,
                                      1,
                                      kThreads,
                                      1,
                                      1,
                                      0,
                                      where_.stream,
                                      arguments.data(),
                                      nullptr);
  check(driver_.pop_context(&previous), "cuCtxPopCurrent");
  check(launched, "cuLaunchKernel");
  running_.insert(where_);
}

TensorFingerprint DeviceFingerprints::read(Ticket ticket) {
  LOCKSTEP_CHECK(ticket < requests_.size(), "no such ticket");
  const Request& request = requests_[ticket];
  LOCKSTEP_CHECK(request.first != nullptr, "what was asked for was not launched");
  for (const Where& where : running_) check(waited(stream(where)), "cuStreamSynchronize");
  running_.clear();
  return whole(request.first, request.n_chunks);
}

std::vector<DeviceFingerprints::Stream> DeviceFingerprints::running() {
  std::vector<Stream> streams;
  for (const Where& where : running_) streams.push_back(stream(where));
  return streams;
}

DeviceFingerprints::Stream DeviceFingerprints::stream(const Where& where) {
  return {driver_, device(where.device).context, where.stream};
}

void DeviceFingerprints::Stream::wait() const { (void)waited(*this); }

void DeviceFingerprints::forget() {
  requests_.clear();
  asked_.clear();
  slab_ = 0;
  used_ = 0;
}

}  // namespace lockstep::fingerprint
