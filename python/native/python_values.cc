#include "lockstep/python/native/python_values.h"

#include <limits>

#include "lockstep/base/text.h"

namespace lockstep::python {

namespace {

void throw_if_error() {
  if (PyErr_Occurred() != nullptr) throw PythonError();
}

std::int64_t integer_of(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1) throw_if_error();
  return value;
}

std::int32_t small_of(PyObject* object) {
  const std::int64_t value = integer_of(object);
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    PyErr_SetString(PyExc_OverflowError, "an integer of 32 bits is required");
    throw PythonError();
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return object;
}

Arguments::Arguments(PyObject* const* values, Py_ssize_t n, Py_ssize_t expected) : values_(values) {
  if (n == expected) return;
  const std::string message = "takes " + std::to_string(expected) +
                              " positional arguments, and was given " + std::to_string(n);
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw PythonError();
}

void Arguments::unknown(std::string_view word, std::span<const std::string_view> known) {
  const std::string message =
      "unknown word '" + std::string(word) + "'" + did_you_mean(word, known);
  PyErr_SetString(PyExc_ValueError, message.c_str());
  throw PythonError();
}

std::int64_t Arguments::integer(std::size_t i) const { return integer_of(values_[i]); }

std::int32_t Arguments::small(std::size_t i) const { return small_of(values_[i]); }

std::uint64_t Arguments::word(std::size_t i) const {
  const std::uint64_t value = PyLong_AsUnsignedLongLong(values_[i]);
  if (value == std::numeric_limits<std::uint64_t>::max()) throw_if_error();
  return value;
}

double Arguments::real(std::size_t i) const {
  const double value = PyFloat_AsDouble(values_[i]);
  if (value == -1.0) throw_if_error();
  return value;
}

bool Arguments::flag(std::size_t i) const {
  const int value = PyObject_IsTrue(values_[i]);
  if (value < 0) throw PythonError();
  return value != 0;
}

std::string_view text_of(PyObject* object) {
  Py_ssize_t n = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &n);
  if (text == nullptr) throw PythonError();
  return {text, static_cast<std::size_t>(n)};
}

std::string_view Arguments::text(std::size_t i) const { return text_of(values_[i]); }

std::int64_t Arguments::in_range(std::size_t i, std::int64_t n) const {
  const std::int64_t value = integer(i);
  if (value < 0 || value >= n) {
    PyErr_SetString(PyExc_ValueError, "no such member of the closed set");
    throw PythonError();
  }
  return value;
}

std::vector<PyObject*> members_of(PyObject* list) {
  const Py_ssize_t n = PyList_Size(list);
  if (n < 0) throw PythonError();
  std::vector<PyObject*> members(static_cast<std::size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    members[static_cast<std::size_t>(i)] = PyList_GetItem(list, i);
  }
  return members;
}

std::vector<std::int64_t> Arguments::integers(std::size_t i) const {
  std::vector<std::int64_t> values;
  for (PyObject* member : members_of(values_[i])) values.push_back(integer_of(member));
  return values;
}

std::vector<std::int32_t> Arguments::small_integers(std::size_t i) const {
  std::vector<std::int32_t> values;
  for (PyObject* member : members_of(values_[i])) values.push_back(small_of(member));
  return values;
}

std::vector<double> Arguments::reals(std::size_t i) const {
  std::vector<double> values;
  for (PyObject* member : members_of(values_[i])) {
    values.push_back(PyFloat_AsDouble(member));
    if (values.back() == -1.0) throw_if_error();
  }
  return values;
}

std::vector<std::string_view> Arguments::texts(std::size_t i) const {
  std::vector<std::string_view> values;
  for (PyObject* member : members_of(values_[i])) values.push_back(text_of(member));
  return values;
}

PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* text(std::string_view value) {
  return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
}

void set_error(const std::exception& error) { PyErr_SetString(PyExc_RuntimeError, error.what()); }

}  // namespace lockstep::python
