// The module `lockstep._core`: digests, the pen, and laws on a folder of traces. Built against
// Python's stable interface, so that one file serves every Python from 3.10 on.
#include "lockstep/python/native/python_values.h"
// Python's header comes first.
#include <csignal>
#include <string>
#include <unistd.h>

#include "lockstep/formats/flight_recorder.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/python/native/coordinate.h"
#include "lockstep/python/native/pen_type.h"
#include "lockstep/python/native/watch.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::python {

namespace {

/// Elements that Python says lie in memory at an address.
struct Elements {
  const void* data;
  std::int64_t n;
  DType dtype;
};

Elements elements(const Arguments& arguments) {
  PyObject* const address = arguments.object(0);
  const Elements found{PyLong_AsVoidPtr(address), arguments.integer(1), arguments.choice<DType>(2)};
  if (PyErr_Occurred() != nullptr) throw PythonError();
  if (found.n < 0 || (found.n > 0 && found.data == nullptr)) {
    PyErr_SetString(PyExc_ValueError, "a negative count, or elements at no address");
    throw PythonError();
  }
  return found;
}

PyObject* digest(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&] {
    const Arguments arguments(values, n, 4);
    const Elements at = elements(arguments);
    return PyLong_FromUnsignedLongLong(sm64(at.data, at.n, at.dtype, arguments.word(3)));
  });
}

PyObject* fingerprint(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Elements at = elements(Arguments(values, n, 3));
    if (!is_floating(at.dtype)) {
      PyErr_SetString(PyExc_ValueError, "only floating-point tensors have sketches");
      throw PythonError();
    }
    const TensorFingerprint print = fingerprint_of(at.data, at.n, at.dtype);
    Owned result(checked(PyTuple_New(6)));
    PyTuple_SetItem(result.get(), 0, PyLong_FromUnsignedLongLong(print.digest));
    PyTuple_SetItem(result.get(), 1, PyFloat_FromDouble(print.sketch.l1));
    for (std::size_t i = 0; i < print.sketch.sums.size(); ++i) {
      PyTuple_SetItem(
          result.get(), static_cast<Py_ssize_t>(i) + 2, PyFloat_FromDouble(print.sketch.sums[i]));
    }
    return result.release();
  });
}

/// The report on the folders of one job, as a JSON object (docs/report_format.md) that has the
/// report for a terminal as well: "text".
PyObject* check(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Arguments arguments(values, n, 3);
    LawPolicy policy;
    policy.buffers = arguments.named<BufferPolicy>(2);
    for (const std::string_view allowed : arguments.texts(1)) policy.allow.emplace_back(allowed);
    std::vector<std::string> folders;
    for (const std::string_view folder : arguments.texts(0)) folders.emplace_back(folder);
    const Result<LoadedTrace> loaded = read_jsonl(folders);
    if (!loaded.ok()) {
      PyErr_SetString(PyExc_ValueError, loaded.error().text().c_str());
      throw PythonError();
    }
    Result<Report> report = check_trace(loaded.value(), policy);
    if (!report.ok()) {
      PyErr_SetString(PyExc_ValueError, report.error().text().c_str());
      throw PythonError();
    }
    return text(render_json(report.value(), [&](JsonText& out) {
      out.key("text").text(render_text(report.value(), TextOptions{.digests = false}));
    }));
  });
}

/// Writes the dumps of PyTorch's Flight Recorder of one run as a folder of traces.
PyObject* trace_of_dumps(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Arguments arguments(values, n, 2);
    std::vector<std::string> files;
    for (const std::string_view file : arguments.texts(0)) files.emplace_back(file);
    const Result<LoadedTrace> loaded = read_flight_recorder(files);
    const Outcome written = loaded.ok() ? write_jsonl(*loaded.value().trace,
                                                      loaded.value().header,
                                                      std::string(arguments.text(1)))
                                        : Outcome(loaded.error());
    if (written.ok()) return none();
    PyErr_SetString(PyExc_ValueError, written.error().text().c_str());
    throw PythonError();
  });
}

/// The id of a law that a trace can be held to. Raises ValueError, with a guess.
PyObject* known_law(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Result<std::unique_ptr<Law>> law = make_law(Arguments(values, n, 1).text(0), {});
    if (law.ok()) return text(law.value()->info().id);
    PyErr_SetString(PyExc_ValueError, law.error().text().c_str());
    throw PythonError();
  });
}

/// Ends the process by a signal, as if no handler had been installed.
PyObject* die_by(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&] {
    const int number = Arguments(values, n, 1).small(0);
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
    ::kill(::getpid(), number);
    return none();
  });
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef function(const char* name, FastCall call) {
  // Python keeps one type of pointer for all calling conventions; the flag says which it is.
  auto* const any = reinterpret_cast<void (*)()>(call);
  return {name, reinterpret_cast<PyCFunction>(any), METH_FASTCALL, nullptr};
}

PyObject* make_module() {
  static PyMethodDef functions[] = {
      function("sm64", digest),
      function("fingerprint", fingerprint),
      function("check", check),
      function("known_law", known_law),
      function("trace_of_dumps", trace_of_dumps),
      function("watch_open", watch_open),
      function("watch_poll", watch_poll),
      function("die_by", die_by),
      function("coordinate", coordinate),
      function("torn_saves", torn_saves),
      {nullptr, nullptr, 0, nullptr},
  };
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_core", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};
  Owned module(checked(PyModule_Create(&definition)));
  Owned pen(make_pen_type());
  if (PyModule_AddObject(module.get(), "Pen", pen.get()) != 0) throw PythonError();
  (void)pen.release();
  return module.release();
}

}  // namespace

}  // namespace lockstep::python

PyMODINIT_FUNC PyInit__core() {  // NOLINT(readability-identifier-naming): Python's name for it.
  return lockstep::python::guarded([] { return lockstep::python::make_module(); });
}
