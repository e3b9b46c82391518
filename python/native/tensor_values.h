// PyTorch's tensors, seen through their own methods: no header of PyTorch is needed.
#pragma once

#include "lockstep/python/native/python_values.h"
// Python's header comes first.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/python/native/pen.h"

namespace lockstep::python {

/// Reads tensors: asks each for its place, and copies what is not contiguous, or lies where nothing of
/// ours can compute.
class TensorReader {
 public:
  /// Called once, where tensors of GPUs are copied to the host, with the reason.
  using SayWhy = std::function<void(const std::string& reason)>;

  /// `streams`: asked for the stream in use of a device, by the device's number: an integer, as cuda.h has it.
  /// Or a text: why tensors of GPUs are to be copied.
  TensorReader(PyObject* streams, SayWhy say_why);

  /// Maps a dtype object to ours.
  void learn(PyObject* dtype, DType ours);

  /// A tensor's elements in the host's memory; None has none. `copies` receives what must outlive the view.
  /// Throws PythonError for what is not a tensor of a known dtype.
  TensorView view(PyObject* tensor, std::vector<Owned>& copies);
  /// The same, where they lie. Valid as long as this reader is.
  TensorView in_place(PyObject* tensor, std::vector<Owned>& copies);
  std::vector<TensorView> in_place_of_all(PyObject* list, std::vector<Owned>& copies);
  /// Waits for the fingerprints that devices compute, without the interpreter's lock: a collective that never returns
  /// must not stop the threads that watch for it.
  void wait();
  /// The same of what a view's stream holds.
  void wait_for(const TensorView& view);

  /// Nothing: a dtype that traces do not know.
  std::optional<DType> known_dtype(PyObject* tensor) const;
  static bool is_on_gpu(PyObject* tensor);
  static std::int64_t n_elems(PyObject* tensor);

 private:
  using Where = fingerprint::DeviceFingerprints::Where;

  DType dtype_of(PyObject* tensor) const;
  TensorView view(PyObject* tensor, std::vector<Owned>& copies, bool stays);
  TensorView memory_of(PyObject* tensor, std::vector<Owned>& copies, bool stays);
  /// Nothing: it is to be copied to the host.
  std::optional<Where> device_of(PyObject* tensor);
  /// Whether fingerprints can be computed on this device. A process that never shows a tensor of a GPU does
  /// not touch its driver.
  bool can_compute_on(int device);
  static void wait_for_all(std::span<const fingerprint::DeviceFingerprints::Stream> streams);
  void stays_on_host(const std::string& reason);

  Owned streams_;  // Null: tensors are copied.
  SayWhy say_why_;
  std::optional<fingerprint::DeviceFingerprints> prints_;
  std::vector<std::pair<PyObject*, DType>> dtypes_;  // PyTorch keeps them forever.
};

}  // namespace lockstep::python
