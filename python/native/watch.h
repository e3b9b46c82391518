// `lockstep._core.watch_*`: the laws on a folder that ranks are still writing to.
#pragma once

#include "lockstep/python/native/python_values.h"

namespace lockstep::python {

/// watch_open(folder, allow, buffers) -> a watch.
PyObject* watch_open(PyObject* module, PyObject* const* values, Py_ssize_t n);
/// watch_poll(watch, in_silence) -> a report as JSON with what is certain by now, or "" where that
/// has not changed. Raises ValueError for damaged files.
PyObject* watch_poll(PyObject* module, PyObject* const* values, Py_ssize_t n);

}  // namespace lockstep::python
