#include "lockstep/python/native/tensor_values.h"
// Python's header comes first.
#include <set>

namespace lockstep::python {

namespace {

/// Method and attribute names, interned once.
struct Words {
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* is_sparse = PyUnicode_InternFromString("is_sparse");
  PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* numel = PyUnicode_InternFromString("numel");
  PyObject* detach = PyUnicode_InternFromString("detach");
  PyObject* cpu = PyUnicode_InternFromString("cpu");
  PyObject* to_dense = PyUnicode_InternFromString("to_dense");
  PyObject* contiguous = PyUnicode_InternFromString("contiguous");
  PyObject* device = PyUnicode_InternFromString("device");
  PyObject* index = PyUnicode_InternFromString("index");
  PyObject* local_tensor = PyUnicode_InternFromString("_local_tensor");
};

const Words& words() {
  static const Words all;
  return all;
}

Owned call(PyObject* object, PyObject* method) {
  return Owned(checked(PyObject_CallMethodObjArgs(object, method, nullptr)));
}

bool attribute(PyObject* object, PyObject* name) {
  const Owned value(checked(PyObject_GetAttr(object, name)));
  return value.get() == Py_True;
}

/// A DTensor has no memory of its own, but a part that lies on this rank. Null for other tensors.
Owned local_part(PyObject* tensor) {
  Owned part(PyObject_GetAttr(tensor, words().local_tensor));
  if (part.get() != nullptr) return part;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw PythonError();
  PyErr_Clear();
  return part;
}

bool answer(PyObject* object, PyObject* method) { return call(object, method).get() == Py_True; }

bool has_no_memory(const TensorView& view) { return view.data == nullptr && view.n_elems > 0; }

}  // namespace

void TensorReader::learn(PyObject* dtype, DType ours) {
  Py_INCREF(dtype);
  dtypes_.emplace_back(dtype, ours);
}

std::optional<DType> TensorReader::known_dtype(PyObject* tensor) const {
  const Owned dtype(checked(PyObject_GetAttr(tensor, words().dtype)));
  for (const auto& [known, ours] : dtypes_) {
    if (known == dtype.get()) return ours;
  }
  return std::nullopt;
}

bool TensorReader::is_on_gpu(PyObject* tensor) { return attribute(tensor, words().is_cuda); }

std::int64_t TensorReader::n_elems(PyObject* tensor) {
  const Owned n(call(tensor, words().numel));
  return PyLong_AsLongLong(n.get());
}

DType TensorReader::dtype_of(PyObject* tensor) const {
  const std::optional<DType> known = known_dtype(tensor);
  if (known) return *known;
  PyErr_SetString(PyExc_TypeError, "a tensor of a dtype that traces do not know");
  throw PythonError();
}

TensorReader::TensorReader(PyObject* streams, SayWhy say_why) : say_why_(std::move(say_why)) {
  Py_INCREF(streams);
  streams_ = Owned(streams);
}

void TensorReader::stays_on_host(const std::string& reason) {
  streams_ = Owned();
  say_why_(reason);
}

bool TensorReader::can_compute_on(int device) {
  if (!prints_) {
    Result<fingerprint::DeviceFingerprints> opened = fingerprint::DeviceFingerprints::open();
    if (!opened.ok()) {
      stays_on_host(opened.error().text());
      return false;
    }
    prints_.emplace(std::move(opened).value());
  }
  const Outcome ready = prints_->ready(device);
  if (!ready.ok()) stays_on_host(ready.error().text());
  return ready.ok();
}

std::optional<TensorReader::Where> TensorReader::device_of(PyObject* tensor) {
  if (streams_.get() == nullptr || !is_on_gpu(tensor)) return std::nullopt;
  if (PyCallable_Check(streams_.get()) == 0) {
    stays_on_host(std::string(text_of(streams_.get())));
    return std::nullopt;
  }
  const Owned device(checked(PyObject_GetAttr(tensor, words().device)));
  const Owned index(checked(PyObject_GetAttr(device.get(), words().index)));
  const Owned stream(checked(PyObject_CallFunctionObjArgs(streams_.get(), index.get(), nullptr)));
  const Where where{.device = static_cast<int>(PyLong_AsLong(index.get())),
                    .stream = PyLong_AsVoidPtr(stream.get())};
  if (PyErr_Occurred() != nullptr) throw PythonError();
  if (!can_compute_on(where.device)) return std::nullopt;
  return where;
}

/// Where the elements lie. Null for a tensor that has no memory of its own.
TensorView TensorReader::memory_of(PyObject* tensor, std::vector<Owned>& copies, bool stays) {
  const std::optional<Where> device = stays ? device_of(tensor) : std::nullopt;
  const bool here = device || attribute(tensor, words().is_cpu);
  const bool sparse = attribute(tensor, words().is_sparse);
  PyObject* dense = tensor;
  if (!here || sparse || !answer(tensor, words().is_contiguous)) {
    Owned copy = call(tensor, words().detach);
    if (sparse) copy = call(copy.get(), words().to_dense);
    if (!here) copy = call(copy.get(), words().cpu);
    copy = call(copy.get(), words().contiguous);
    dense = copy.get();
    copies.push_back(std::move(copy));
  }
  const Owned address = call(dense, words().data_ptr);
  const Owned n_elems = call(dense, words().numel);
  TensorView view{.data = PyLong_AsVoidPtr(address.get()),
                  .n_elems = PyLong_AsLongLong(n_elems.get()),
                  .dtype = dtype_of(tensor)};
  if (PyErr_Occurred() != nullptr) throw PythonError();
  if (device && prints_->is_capturing(*device)) {
    view.n_elems = 0;  // It has no values yet: they come when the graph runs.
  } else if (device) {
    view.prints = &*prints_;
    view.where = *device;
  }
  return view;
}

TensorView TensorReader::view(PyObject* tensor, std::vector<Owned>& copies, bool stays) {
  if (tensor == Py_None) return {};
  TensorView view = memory_of(tensor, copies, stays);
  if (has_no_memory(view)) {
    Owned local = local_part(tensor);
    if (local.get() != nullptr) {
      view = memory_of(local.get(), copies, stays);
      copies.push_back(std::move(local));
    }
  }
  if (has_no_memory(view)) view.n_elems = 0;  // Of other classes nothing can be read.
  static constexpr char kEmpty = 0;
  if (view.data == nullptr) view.data = &kEmpty;  // An empty tensor is not a missing one.
  return view;
}

TensorView TensorReader::view(PyObject* tensor, std::vector<Owned>& copies) {
  return view(tensor, copies, false);
}

TensorView TensorReader::in_place(PyObject* tensor, std::vector<Owned>& copies) {
  return view(tensor, copies, true);
}

std::vector<TensorView> TensorReader::in_place_of_all(PyObject* list, std::vector<Owned>& copies) {
  std::vector<TensorView> views;
  std::set<Where> places;
  for (PyObject* member : members_of(list)) {
    views.push_back(in_place(member, copies));
    if (views.back().prints != nullptr) places.insert(views.back().where);
  }
  std::vector<fingerprint::DeviceFingerprints::Stream> streams;
  for (const Where& place : places) streams.push_back(prints_->stream(place));
  wait_for_all(streams);
  return views;
}

void TensorReader::wait_for(const TensorView& view) {
  if (view.prints == nullptr) return;
  const auto stream = view.prints->stream(view.where);
  wait_for_all({&stream, 1});
}

void TensorReader::wait() {
  if (prints_) wait_for_all(prints_->running());
}

void TensorReader::wait_for_all(std::span<const fingerprint::DeviceFingerprints::Stream> streams) {
  if (streams.empty()) return;
  PyThreadState* const thread = PyEval_SaveThread();
  for (const auto& stream : streams) stream.wait();
  PyEval_RestoreThread(thread);
}

}  // namespace lockstep::python
