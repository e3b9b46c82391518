// PyTorch's tensors, seen through their own methods: no header of PyTorch is needed.
#pragma once

#include "lockstep/python/native/python_values.h"
// Python's header comes first.
#include <optional>
#include <vector>

#include "lockstep/python/native/pen.h"

namespace lockstep::python {

/// Reads tensors: asks each for its place, and copies what is elsewhere or not contiguous.
class TensorReader {
 public:
  /// Maps a dtype object to ours.
  void learn(PyObject* dtype, DType ours);

  /// Where a tensor's elements are; None has none. `copies` receives what must outlive the view.
  /// Throws PythonError for what is not a tensor of a known dtype.
  TensorView view(PyObject* tensor, std::vector<Owned>& copies) const;
  std::vector<TensorView> views(PyObject* list, std::vector<Owned>& copies) const;

  /// Nothing: a dtype that traces do not know.
  std::optional<DType> known_dtype(PyObject* tensor) const;
  static bool is_on_gpu(PyObject* tensor);
  static std::int64_t n_elems(PyObject* tensor);

 private:
  DType dtype_of(PyObject* tensor) const;

  std::vector<std::pair<PyObject*, DType>> dtypes_;  // PyTorch keeps them forever.
};

}  // namespace lockstep::python
