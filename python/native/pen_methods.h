// How methods of `lockstep._core.Pen` are written: what they get, and their rows in the table.
#pragma once

#include "lockstep/python/native/python_values.h"
// Python's header comes first.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/python/native/pen.h"
#include "lockstep/python/native/tensor_values.h"

namespace lockstep::python {

/// What a Python object of the type points to.
struct PenState {
  /// `streams`: as TensorReader has it.
  PenState(
      std::unique_ptr<RankFile> file, std::int32_t attempt, Rank rank, bool lazy, PyObject* streams)
      : pen(std::move(file), attempt, rank, lazy),
        reader(streams, [this](const std::string& reason) {
          const std::string text = "digests of tensors on GPUs are computed on the host: " + reason;
          pen.write(LogEvent{.text = pen.name(text)}, -1);
        }) {}

  Pen pen;
  TensorReader reader;
};

struct PenObject {
  PyObject_HEAD PenState* state;
};

using Method = PyObject* (*)(PenState&, const Arguments&);

inline PenState& state_of(PyObject* self) {
  PenState* state = reinterpret_cast<PenObject*>(self)->state;
  if (state != nullptr) return *state;
  PyErr_SetString(PyExc_ValueError, "the pen was never opened");
  throw PythonError();
}

/// A method with a fixed number of positional arguments.
template <Method kMethod, Py_ssize_t kExpected>
PyObject* entry(PyObject* self, PyObject* const* values, Py_ssize_t n) {
  return guarded([&] { return kMethod(state_of(self), Arguments(values, n, kExpected)); });
}

inline void throw_unless_ok(const Outcome& outcome) {
  if (outcome.ok()) return;
  PyErr_SetString(PyExc_OSError, outcome.error().text().c_str());
  throw PythonError();
}

template <typename Id>
Id id_at(const Arguments& arguments, std::size_t i) {
  return static_cast<Id>(arguments.small(i));
}

inline GradPoint grad_point(const Arguments& arguments, std::size_t i) {
  return arguments.choice<GradPoint>(i);
}

/// Its row in the table of methods.
template <Method kMethod, Py_ssize_t kExpected>
PyMethodDef method(const char* name) {
  // Python keeps one type of pointer for all calling conventions; the flag says which it is.
  auto* const function = reinterpret_cast<void (*)()>(&entry<kMethod, kExpected>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL, nullptr};
}

/// What optimizers, losses, hooks and annotations say (pen_calls.cc).
std::vector<PyMethodDef> word_methods();

}  // namespace lockstep::python
