// The Python type `lockstep._core.Pen`.
#pragma once

#include "lockstep/python/native/python_values.h"

namespace lockstep::python {

/// A new reference to the type. Throws PythonError.
PyObject* make_pen_type();

}  // namespace lockstep::python
