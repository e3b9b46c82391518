// `lockstep._core.coordinate`: processes as virtual ranks, from Python.
#pragma once

#include "lockstep/python/native/python_values.h"

namespace lockstep::python {

/// The function as the module's table takes it; python/lockstep/_core.pyi is its contract.
PyObject* coordinate(PyObject* module, PyObject* const* values, Py_ssize_t n);

/// `lockstep._core.torn_saves`: which planned faults a rank does to itself; all are checked.
PyObject* torn_saves(PyObject* module, PyObject* const* values, Py_ssize_t n);

}  // namespace lockstep::python
