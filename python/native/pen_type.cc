#include "lockstep/python/native/pen_type.h"
// Python's header comes first.
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/end_reason.h"
#include "lockstep/python/native/pen_methods.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::python {

namespace {

// -- names and positions

PyObject* layout(PenState& state, const Arguments& arguments) {
  std::vector<NameId> names;
  for (const std::string_view name : arguments.texts(0)) names.push_back(state.pen.name(name));
  return PyLong_FromLong(static_cast<std::int32_t>(state.pen.layout(names)));
}

/// Arguments 1 to 4.
Position position_in(const Arguments& arguments) {
  return {.sync = arguments.small(1),
          .micro = arguments.small(2),
          .opt = arguments.small(3),
          .epoch = arguments.small(4)};
}

PyObject* place(PenState& state, const Arguments& arguments) {
  state.pen.place(arguments.small(0), position_in(arguments));
  return none();
}

// -- what the wrapper does

PyObject* wrap(PenState& state, const Arguments& arguments) {
  WrapEvent event;
  event.params = id_at<LayoutId>(arguments, 1);
  event.frozen = id_at<LayoutId>(arguments, 2);
  event.buffers = id_at<LayoutId>(arguments, 3);
  event.ignored = id_at<LayoutId>(arguments, 4);
  event.buffer_policy = arguments.named<BufferPolicy>(5);
  event.bucket_cap_bytes = arguments.integer(6);
  event.group = arguments.small(7);
  event.n_ranks = arguments.small(8);
  event.synchronizes = arguments.flag(9);
  state.pen.write(event, arguments.small(0));
  state.pen.track(arguments.small(0), event.params);
  return none();
}

PyObject* bucket(PenState& state, const Arguments& arguments) {
  const std::vector<std::int32_t> indices = arguments.small_integers(1);
  const std::vector<std::int32_t> lengths = arguments.small_integers(2);
  state.pen.write(BucketEvent{.indices = indices, .lengths = lengths}, arguments.small(0));
  return none();
}

PyObject* forward(PenState& state, const Arguments& arguments) {
  state.pen.write(ForwardEvent{.through_wrapper = arguments.flag(1),
                               .synchronizing = arguments.flag(2),
                               .training = arguments.flag(3),
                               .grad = arguments.flag(4),
                               .autocast = arguments.named<AutocastType>(5)},
                  arguments.small(0));
  return none();
}

PyObject* backward(PenState& state, const Arguments& arguments) {
  state.pen.write(BackwardEvent{.reduced = arguments.flag(1)}, arguments.small(0));
  return none();
}

// -- gradients and states

PyObject* note(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView view = state.reader.in_place(arguments.object(3), copies);
  state.pen.note({arguments.small(0), grad_point(arguments, 1)},
                 static_cast<std::size_t>(arguments.integer(2)),
                 view);
  return none();
}

PyObject* note_same(PenState& state, const Arguments& arguments) {
  state.pen.note_same({arguments.small(0), grad_point(arguments, 1)},
                      grad_point(arguments, 2),
                      static_cast<std::size_t>(arguments.integer(3)));
  return none();
}

PyObject* write_noted(PenState& state, const Arguments& arguments) {
  state.reader.wait();
  state.pen.write_noted({arguments.small(0), grad_point(arguments, 1)});
  return none();
}

PyObject* grads(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(3), copies);
  state.pen.write_grads(
      {arguments.small(0), grad_point(arguments, 1)}, id_at<LayoutId>(arguments, 2), views);
  return none();
}

PyObject* states(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(4), copies);
  StateEvent event;
  event.kind = arguments.choice<StateKind>(1);
  event.point = arguments.choice<StatePoint>(2);
  event.layout = id_at<LayoutId>(arguments, 3);
  state.pen.write_states(event, views, arguments.small(0));
  return none();
}

PyObject* found(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(2), copies);
  state.pen.write_found(id_at<LayoutId>(arguments, 1), views, arguments.small(0));
  return none();
}

PyObject* look_at_buffers(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(2), copies);
  state.pen.look_at_buffers(id_at<LayoutId>(arguments, 1), views, arguments.small(0));
  return none();
}

PyObject* replaced(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(2), copies);
  state.pen.write_replaced(id_at<LayoutId>(arguments, 1), views, arguments.small(0));
  return none();
}

PyObject* lone(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> views = state.reader.in_place_of_all(arguments.object(3), copies);
  const auto point = arguments.choice<LonePoint>(1);
  state.pen.write_lone(point, id_at<LayoutId>(arguments, 2), views, arguments.small(0));
  return none();
}

PyObject* step(PenState& state, const Arguments& arguments) {
  state.pen.write(StepEvent{.lr = arguments.real(1),
                            .scale = arguments.real(2),
                            .found_inf = arguments.flag(3),
                            .skipped = arguments.flag(4),
                            .layout = id_at<LayoutId>(arguments, 5)},
                  arguments.small(0));
  throw_unless_ok(state.pen.step_over());
  return none();
}

// -- data

PyObject* batch(PenState& state, const Arguments& arguments) {
  state.pen.write(BatchEvent{.n_samples = arguments.integer(1),
                             .n_tokens = arguments.integer(2),
                             .denominator = arguments.real(3),
                             .declared = state.pen.name(arguments.text(4))},
                  arguments.small(0));
  return none();
}

PyObject* sample(PenState& state, const Arguments& arguments) {
  const std::vector<std::int64_t> ids = arguments.integers(2);
  state.pen.write(SampleEvent{.split = state.pen.name(arguments.text(1)), .ids = ids},
                  arguments.small(0));
  return none();
}

PyObject* sample_at(PenState& state, const Arguments& arguments) {
  const std::vector<std::int64_t> ids = arguments.integers(6);
  state.pen.write_at(position_in(arguments),
                     SampleEvent{.split = state.pen.name(arguments.text(5)), .ids = ids},
                     arguments.small(0));
  return none();
}

PyObject* data(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const std::vector<TensorView> tensors = state.reader.in_place_of_all(arguments.object(4), copies);
  state.pen.write_data({.part = arguments.choice<DataPart>(1),
                        .split = state.pen.name(arguments.text(2)),
                        .source = state.pen.name(arguments.text(3))},
                       tensors,
                       arguments.small(0));
  return none();
}

PyObject* input(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView values = state.reader.view(arguments.object(2), copies);
  state.pen.write_input(
      state.pen.name(arguments.text(1)), values, arguments.integer(3), arguments.small(0));
  return none();
}

PyObject* epoch(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView order = state.reader.view(arguments.object(3), copies);
  state.pen.write(EpochEvent{.split = state.pen.name(arguments.text(0)),
                             .sampler = state.pen.name(arguments.text(1)),
                             .generator_key = arguments.word(2),
                             .order_digest = sm64(order.data, order.n_elems, order.dtype),
                             .dataset_size = arguments.integer(4),
                             .n_replicas = arguments.integer(5),
                             .per_rank = arguments.integer(6),
                             .shuffle = arguments.flag(7),
                             .drop_last = arguments.flag(8),
                             .pads = arguments.flag(9)},
                  -1);
  return none();
}

// -- groups and collectives

PyObject* group(PenState& state, const Arguments& arguments) {
  const std::vector<std::int32_t> members = arguments.small_integers(1);
  state.pen.write(GroupEvent{.group = arguments.small(0), .members = members}, -1);
  return none();
}

/// A file, a line and a scope, from argument `i` on.
CallSite site_at(PenState& state, const Arguments& arguments, std::size_t i) {
  return {state.pen.keep(arguments.text(i)),
          arguments.small(i + 1),
          state.pen.keep(arguments.text(i + 2))};
}

PyObject* posted(PenState& state, const Arguments& arguments) {
  Signature call;
  call.op = arguments.choice<CollectiveOp>(2);
  call.reduce = arguments.choice<ReduceOp>(3);
  call.dtype = arguments.choice<DType>(4);
  call.device = arguments.flag(5) ? Device::kCuda : Device::kCpu;
  call.async = arguments.flag(6);
  call.root = arguments.small(7);
  call.peer = arguments.small(8);
  call.tag = arguments.small(9);
  call.count = arguments.integer(10);
  call.splits = arguments.word(11);
  call.layout = arguments.word(12);
  call.site = site_at(state, arguments, 13);
  return PyLong_FromLongLong(state.pen.post(arguments.small(1), call, arguments.small(0)));
}

/// A call of the wrapper's own: a sum of these tensors, or their like.
PyObject* posted_own(PenState& state, const Arguments& arguments) {
  Signature call;
  call.op = arguments.choice<CollectiveOp>(2);
  call.dtype = DType::kU8;
  const std::vector<PyObject*> tensors = members_of(arguments.object(3));
  for (PyObject* const tensor : tensors) call.count += TensorReader::n_elems(tensor);
  if (!tensors.empty()) {
    call.dtype = state.reader.known_dtype(tensors.front()).value_or(DType::kU8);
    call.device = TensorReader::is_on_gpu(tensors.front()) ? Device::kCuda : Device::kCpu;
  }
  call.async = arguments.flag(4);
  call.root = arguments.small(5);
  call.site = site_at(state, arguments, 6);
  return PyLong_FromLongLong(state.pen.post(arguments.small(1), call, arguments.small(0)));
}

PyObject* leave_out(PenState& state, const Arguments& arguments) {
  state.pen.leave_out(arguments.small(1), arguments.integer(2), arguments.small(0));
  return none();
}

PyObject* seq_of(PenState& state, const Arguments& arguments) {
  return checked(PyLong_FromLongLong(state.pen.seq_of(arguments.integer(0))));
}

PyObject* completed(PenState& state, const Arguments& arguments) {
  state.pen.complete(
      arguments.integer(1), arguments.flag(2), arguments.real(3), arguments.small(0));
  return none();
}

PyObject* group_of(PenState& state, const Arguments& arguments) {
  return checked(PyLong_FromLong(state.pen.group_of(arguments.integer(0))));
}

// -- the rank itself

PyObject* environment(PenState& state, const Arguments& arguments) {
  const std::string_view schema = arguments.text(4);
  const auto n = static_cast<std::int64_t>(schema.size());
  state.pen.write(EnvironmentEvent{.world = arguments.small(0),
                                   .local_rank = arguments.small(1),
                                   .node = state.pen.name(arguments.text(2)),
                                   .device = state.pen.name(arguments.text(3)),
                                   .schema = sm64(schema.data(), n, DType::kU8)},
                  -1);
  return none();
}

PyObject* phase(PenState& state, const Arguments& arguments) {
  const auto kind = arguments.choice<PhaseKind>(1);
  state.pen.write(PhaseEvent{kind}, arguments.small(0));
  return none();
}

PyObject* log(PenState& state, const Arguments& arguments) {
  const auto kind = arguments.choice<LogKind>(0);
  state.pen.write(LogEvent{.text = state.pen.name(arguments.text(1)), .kind = kind}, -1);
  return none();
}

EndEvent end_event(PenState& state, const Arguments& arguments) {
  return {.outcome = arguments.choice<EndOutcome>(0), .detail = state.pen.name(arguments.text(1))};
}

PyObject* end(PenState& state, const Arguments& arguments) {
  EndEvent event = end_event(state, arguments);
  event.reason = arguments.choice<EndReason>(2);
  state.pen.write(event, -1);
  throw_unless_ok(state.pen.close());
  return none();
}

PyObject* end_for_now(PenState& state, const Arguments& arguments) {
  state.pen.end_for_now(end_event(state, arguments));
  return none();
}

PyObject* flush(PenState& state, const Arguments& /*arguments*/) {
  throw_unless_ok(state.pen.flush());
  return none();
}

// -- the type

int initialize(PyObject* self, PyObject* arguments, PyObject* /*keywords*/) {
  PyObject* const done = guarded([&]() -> PyObject* {
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); ++i) {
      values.push_back(PyTuple_GetItem(arguments, i));
    }
    const Arguments given(values.data(), PyTuple_Size(arguments), 12);
    TraceHeader header;
    header.run_id = given.text(1);
    header.n_ranks = given.small(4);
    header.backend = given.text(5);
    header.scenario = given.text(6);
    header.library = given.text(7);
    header.clock = given.text(8);
    header.sampled = given.flag(10);
    const std::int32_t attempt = given.small(2);
    const Rank rank{given.small(3)};
    auto file = RankFile::open(std::string(given.text(0)), header, attempt, rank);
    if (!file.ok()) {
      PyErr_SetString(PyExc_OSError, file.error().text().c_str());
      throw PythonError();
    }
    auto state = std::make_unique<PenState>(
        std::move(file).value(), attempt, rank, header.sampled, given.object(11));
    const std::vector<PyObject*> dtypes = members_of(given.object(9));
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
      if (dtypes[i] != Py_None) state->reader.learn(dtypes[i], static_cast<DType>(i));
    }
    reinterpret_cast<PenObject*>(self)->state = state.release();
    return self;
  });
  return done == nullptr ? -1 : 0;
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  delete reinterpret_cast<PenObject*>(self)->state;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

std::vector<PyMethodDef> all_methods() {
  std::vector<PyMethodDef> methods = {
      method<layout, 1>("layout"),
      method<place, 5>("place"),
      method<wrap, 10>("wrap"),
      method<bucket, 3>("bucket"),
      method<forward, 6>("forward"),
      method<backward, 2>("backward"),
      method<note, 4>("note"),
      method<note_same, 4>("note_same"),
      method<write_noted, 2>("write_noted"),
      method<grads, 4>("grads"),
      method<states, 5>("states"),
      method<found, 3>("found"),
      method<look_at_buffers, 3>("look_at_buffers"),
      method<replaced, 3>("replaced"),
      method<lone, 4>("lone"),
      method<step, 6>("step"),
      method<batch, 5>("batch"),
      method<sample, 3>("sample"),
      method<sample_at, 7>("sample_at"),
      method<data, 5>("data"),
      method<input, 4>("input"),
      method<epoch, 10>("epoch"),
      method<group, 2>("group"),
      method<posted, 16>("posted"),
      method<posted_own, 9>("posted_own"),
      method<completed, 4>("completed"),
      method<group_of, 1>("group_of"),
      method<leave_out, 3>("leave_out"),
      method<seq_of, 1>("seq_of"),
      method<environment, 5>("environment"),
      method<phase, 2>("phase"),
      method<log, 2>("log"),
      method<end, 3>("end"),
      method<end_for_now, 2>("end_for_now"),
      method<flush, 0>("flush"),
  };
  const std::vector<PyMethodDef> words = word_methods();
  methods.insert(methods.end(), words.begin(), words.end());
  methods.push_back({nullptr, nullptr, 0, nullptr});
  return methods;
}

}  // namespace

PyObject* make_pen_type() {
  static std::vector<PyMethodDef> methods = all_methods();  // Python keeps the rows.
  static PyType_Slot slots[] = {
      {Py_tp_init, reinterpret_cast<void*>(&initialize)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
      {Py_tp_methods, methods.data()},
      {0, nullptr},
  };
  static PyType_Spec spec = {"lockstep._core.Pen", sizeof(PenObject), 0, Py_TPFLAGS_DEFAULT, slots};
  return checked(PyType_FromSpec(&spec));
}

}  // namespace lockstep::python
