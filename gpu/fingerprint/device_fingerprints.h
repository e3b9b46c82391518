// Digests and sketches of tensors in a CUDA device's memory, computed there: beside the numbers
// themselves nothing crosses to the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/gpu/fingerprint/chunk.h"
#include "lockstep/gpu/fingerprint/driver.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::fingerprint {

/// Asks now, reads later: the work is queued on the stream that the tensors are used on, and nothing waits
/// before an answer is read.
///
///   const auto ticket = prints.ask({data, n, DType::kF32, true}, {.device = 0, .stream = stream});
///   prints.launch();                  // From here on the stream may change the elements.
///   ... = prints.read(ticket);        // Waits, unless the stream was waited for meanwhile.
///   prints.forget();
///
/// Digests are those of sm64; sketches are those of sketch_of up to the order of adding (chunk.h), the
/// same in every run. A failing call of the driver throws std::runtime_error with the driver's words.
///
/// Requires: one thread at a time.
class DeviceFingerprints {
 public:
  using Ticket = std::size_t;

  /// Where a tensor lies, and the stream that it is used on: a CUstream, null for the default one.
  struct Where {
    int device = 0;
    void* stream = nullptr;

    friend auto operator<=>(const Where&, const Where&) = default;
  };

  /// A stream, by values alone: it may be waited for while other threads use what it came from.
  struct Stream {
    Driver driver;
    void* context = nullptr;
    void* stream = nullptr;

    /// Until all that it holds has run. A failure shows in the next read().
    void wait() const;
  };

  /// Errors: the build had no nvcc, or this process has no driver, or no device.
  static Result<DeviceFingerprints> open(const std::string& library = "libcuda.so.1");

  ~DeviceFingerprints();
  DeviceFingerprints(DeviceFingerprints&&) noexcept = default;
  DeviceFingerprints& operator=(DeviceFingerprints&&) = delete;
  DeviceFingerprints(const DeviceFingerprints&) = delete;
  DeviceFingerprints& operator=(const DeviceFingerprints&) = delete;

  /// Makes the device ready, once: a driver that is older than the kernel's code refuses it here.
  Outcome ready(int device);

  /// Whether the stream's work is being captured into a graph, to run later and more than once. Then nothing
  /// may be asked for: the graph would write answers each time it runs.
  bool is_capturing(const Where& where);

  /// Notes what is asked for. Requires: elements that stay until launch().
  Ticket ask(const Elements& tensor, const Where& where);
  /// Queues the kernel for all that was asked for.
  void launch();
  /// Requires: launched, and not forgotten.
  TensorFingerprint read(Ticket ticket);
  /// What read() may have to wait for, and what a stream's next answers do. For callers that hold a lock: waiting without
  /// it first leaves read() no more than the kernel's own time.
  std::vector<Stream> running();
  Stream stream(const Where& where);
  /// All tickets become invalid, their memory is used again.
  void forget();

 private:
  struct Request {
    const Partial* first;
    std::int64_t n_chunks;
  };

  struct Device {
    void* context = nullptr;
    void* kernel = nullptr;
  };

  struct Slab {
    Partial* partials = nullptr;
    std::int64_t n = 0;
  };

  explicit DeviceFingerprints(const Driver& driver) : driver_(driver) {}

  /// The driver's words.
  std::string said(int result, const char* call) const;
  void check(int result, const char* call) const;
  Result<Device> opened(int ordinal) const;
  void run(Batch& batch, std::int64_t n_blocks, const Device& device);
  const Device& device(int ordinal);
  /// Memory of the host that devices write to.
  Partial* partials(std::int64_t n, const Device& device);

  Driver driver_;
  std::map<int, Device> devices_;  // Those that have been used.
  std::vector<Slab> slabs_;
  std::size_t slab_ = 0;  // In use, as far as used_.
  std::int64_t used_ = 0;
  std::vector<Request> requests_;  // By ticket.
  std::vector<Elements> asked_;    // Not launched: the last requests, all at one place.
  Where where_;
  std::set<Where> running_;  // What has been launched since they were last waited for.
};

}  // namespace lockstep::fingerprint
