// What Python hands over and what it gets back, without an exception crossing the border.
#pragma once

// Python's header comes first: it sets what the system's headers define.
#include <Python.h>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/enum_names.h"

namespace lockstep::python {

/// An owned reference.
class Owned {
 public:
  Owned() = default;

  /// Takes over the reference; may be null.
  explicit Owned(PyObject* object) : object_(object) {}

  ~Owned() { Py_XDECREF(object_); }

  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}

  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  PyObject* get() const { return object_; }

  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

/// A Python error is set. Thrown through C++ frames only; guarded() turns it into a null result.
class PythonError final : public std::exception {};

/// Throws PythonError if `object` is null.
PyObject* checked(PyObject* object);

/// The positional arguments of one call. Members throw PythonError when a value does not fit.
class Arguments {
 public:
  Arguments(PyObject* const* values, Py_ssize_t n, Py_ssize_t expected);

  PyObject* object(std::size_t i) const { return values_[i]; }

  std::int64_t integer(std::size_t i) const;
  std::int32_t small(std::size_t i) const;  ///< An integer of 32 bits.
  std::uint64_t word(std::size_t i) const;  ///< An integer of 64 bits without sign.
  double real(std::size_t i) const;
  bool flag(std::size_t i) const;
  std::string_view text(std::size_t i) const;  ///< Valid while the argument lives.
  std::vector<std::int64_t> integers(std::size_t i) const;
  std::vector<std::int32_t> small_integers(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const;
  std::vector<std::string_view> texts(std::size_t i) const;

  /// A value of an enum by its number.
  template <NamedEnum Choice>
  Choice choice(std::size_t i) const {
    return static_cast<Choice>(in_range(i, std::ssize(kEnumNames<Choice>)));
  }

  /// A value of an enum by its word.
  template <NamedEnum Choice>
  Choice named(std::size_t i) const {
    const std::string_view word = text(i);
    const std::optional<Choice> known = parse_enum<Choice>(word);
    if (!known) unknown(word, kEnumNames<Choice>);
    return *known;
  }

 private:
  std::int64_t in_range(std::size_t i, std::int64_t n) const;
  [[noreturn]] static void unknown(std::string_view word, std::span<const std::string_view> known);

  PyObject* const* values_;
};

std::string_view text_of(PyObject* object);
/// The members of a list, borrowed. Throws PythonError if it is none.
std::vector<PyObject*> members_of(PyObject* list);

PyObject* none();
PyObject* text(std::string_view value);

/// Sets the Python error that says the same.
void set_error(const std::exception& error);

/// Runs `body`; what it throws becomes a Python error and a null result.
template <typename Body>
PyObject* guarded(Body body) noexcept {
  try {
    return body();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    set_error(error);
    return nullptr;
  }
}

}  // namespace lockstep::python
