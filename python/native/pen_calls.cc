// Methods of the pen for what optimizers, losses and hooks do, and for a program's own words.
#include <algorithm>

#include "lockstep/base/disk_files.h"
#include "lockstep/python/native/pen_methods.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::python {

namespace {

std::uint64_t digest_of(std::string_view bytes) {
  return sm64(bytes.data(), static_cast<std::int64_t>(bytes.size()), DType::kU8);
}

// -- what a step is made of

PyObject* loss(PenState& state, const Arguments& arguments) {
  state.pen.write(LossEvent{.function = state.pen.name(arguments.text(1)),
                            .reduction = arguments.choice<LossReduction>(2),
                            .value = arguments.real(3),
                            .denominator = arguments.real(4),
                            .n_terms = arguments.integer(5),
                            .n_rows = arguments.integer(6),
                            .graph = state.pen.name(arguments.text(7))},
                  arguments.small(0));
  return none();
}

PyObject* clip(PenState& state, const Arguments& arguments) {
  state.pen.write(ClipEvent{.kind = arguments.choice<ClipKind>(1),
                            .limit = arguments.real(2),
                            .norm_type = arguments.real(3),
                            .norm = arguments.real(4),
                            .factor = arguments.real(5),
                            .layout = id_at<LayoutId>(arguments, 6),
                            .whole = arguments.flag(7),
                            .own = arguments.real(8)},
                  arguments.small(0));
  return none();
}

PyObject* options(PenState& state, const Arguments& arguments) {
  const std::vector<double> values = arguments.reals(5);
  state.pen.write(OptimizerEvent{.kind = state.pen.name(arguments.text(1)),
                                 .group = arguments.small(2),
                                 .layout = id_at<LayoutId>(arguments, 3),
                                 .options = id_at<LayoutId>(arguments, 4),
                                 .values = values},
                  arguments.small(0));
  return none();
}

PyObject* zero_grad(PenState& state, const Arguments& arguments) {
  state.pen.write(
      ZeroGradEvent{.to_none = arguments.flag(1), .layout = id_at<LayoutId>(arguments, 2)},
      arguments.small(0));
  return none();
}

PyObject* comm_hook(PenState& state, const Arguments& arguments) {
  state.pen.write(CommHookEvent{arguments.choice<HookEffect>(1)}, arguments.small(0));
  return none();
}

/// The state of a generator is a tensor of bytes.
PyObject* rng(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView bytes = state.reader.view(arguments.object(4), copies);
  state.pen.write(RngEvent{.stream = state.pen.name(arguments.text(1)),
                           .shared = arguments.flag(2),
                           .worker = arguments.integer(3),
                           .state = sm64(bytes.data, bytes.n_elems, bytes.dtype)},
                  arguments.small(0));
  return none();
}

// -- what a program says

PyObject* epoch_annotation(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView order = state.reader.view(arguments.object(4), copies);
  state.pen.write(
      EpochEvent{
          .split = state.pen.name(arguments.text(1)),
          .sampler = state.pen.name(arguments.text(2)),
          .generator_key = arguments.word(3),
          .order_digest = order.data == nullptr ? 0 : sm64(order.data, order.n_elems, order.dtype),
          .dataset_size = arguments.integer(5),
          .n_replicas = arguments.integer(6),
          .per_rank = arguments.integer(7),
          .shuffle = arguments.flag(8),
          .drop_last = arguments.flag(9),
          .pads = arguments.flag(10)},
      arguments.small(0));
  return none();
}

PyObject* metric(PenState& state, const Arguments& arguments) {
  const std::vector<double> parts = arguments.reals(5);
  state.pen.write(MetricEvent{.name = state.pen.name(arguments.text(1)),
                              .value = arguments.real(2),
                              .numerator = arguments.real(3),
                              .denominator = arguments.real(4),
                              .parts = parts},
                  arguments.small(0));
  return none();
}

PyObject* training(PenState& state, const Arguments& arguments) {
  state.pen.write(TrainingEvent{.number = arguments.small(0)}, -1);
  return none();
}

/// The digest of a tensor as events have it.
PyObject* digest(PenState& state, const Arguments& arguments) {
  std::vector<Owned> copies;
  const TensorView view = state.reader.in_place(arguments.object(0), copies);
  state.reader.wait_for(view);
  return checked(PyLong_FromUnsignedLongLong(state.pen.digest_of(view)));
}

PyObject* touch(PenState& state, const Arguments& arguments) {
  state.pen.write(TouchEvent{.written = arguments.flag(1),
                             .operation = state.pen.name(arguments.text(2)),
                             .site = {state.pen.keep(arguments.text(3)), arguments.small(4)},
                             .group = arguments.small(5),
                             .seq = arguments.integer(6),
                             .call = arguments.named<CollectiveOp>(7),
                             .receives = arguments.flag(8),
                             .posted_at = state.pen.name(arguments.text(9))},
                  arguments.small(0));
  return none();
}

PyObject* exchange(PenState& state, const Arguments& arguments) {
  state.pen.write(ExchangeEvent{.call = arguments.named<CollectiveOp>(1),
                                .reduce = arguments.choice<ReduceOp>(2),
                                .group = arguments.small(3),
                                .seq = arguments.integer(4),
                                .n_ranks = arguments.small(5),
                                .step = arguments.small(6),
                                .called_at = state.pen.name(arguments.text(7)),
                                .join = arguments.choice<ExchangeJoin>(8),
                                .dropped = arguments.flag(12),
                                .answered = arguments.flag(9),
                                .scaled = arguments.flag(10),
                                .digest = arguments.word(11)},
                  arguments.small(0));
  return none();
}

PyObject* decision(PenState& state, const Arguments& arguments) {
  state.pen.write(
      DecisionEvent{.name = state.pen.name(arguments.text(1)), .value = arguments.integer(2)},
      arguments.small(0));
  return none();
}

PyObject* configuration(PenState& state, const Arguments& arguments) {
  state.pen.write(ConfigurationEvent{.name = state.pen.name(arguments.text(1)),
                                     .digest = digest_of(arguments.text(2)),
                                     .value = state.pen.name(arguments.text(3))},
                  arguments.small(0));
  return none();
}

PyObject* buffer_policy(PenState& state, const Arguments& arguments) {
  state.pen.write(BufferPolicyEvent{.layout = id_at<LayoutId>(arguments, 1),
                                    .policy = arguments.named<BufferPolicy>(2)},
                  arguments.small(0));
  return none();
}

/// An empty file has one as well: 0 says that it is not known.
PyObject* digest_of_file(PenState& /*state*/, const Arguments& arguments) {
  const Result<std::string> bytes = read_file(std::string(arguments.text(0)));
  if (!bytes.ok()) {
    PyErr_SetString(PyExc_OSError, bytes.error().text().c_str());
    throw PythonError();
  }
  return checked(PyLong_FromUnsignedLongLong(std::max<std::uint64_t>(digest_of(bytes.value()), 1)));
}

PyObject* snapshot(PenState& state, const Arguments& arguments) {
  state.pen.write(SnapshotEvent{.action = arguments.named<SnapshotAction>(1),
                                .step = arguments.integer(2),
                                .detail = state.pen.name(arguments.text(3)),
                                .digest = arguments.word(4)},
                  arguments.small(0));
  return none();
}

}  // namespace

std::vector<PyMethodDef> word_methods() {
  return {
      method<loss, 8>("loss"),
      method<clip, 9>("clip"),
      method<options, 6>("options"),
      method<zero_grad, 3>("zero_grad"),
      method<comm_hook, 2>("comm_hook"),
      method<rng, 5>("rng"),
      method<epoch_annotation, 11>("epoch_annotation"),
      method<metric, 6>("metric"),
      method<training, 1>("training"),
      method<digest, 1>("digest"),
      method<exchange, 13>("exchange"),
      method<touch, 10>("touch"),
      method<decision, 3>("decision"),
      method<configuration, 4>("configuration"),
      method<buffer_policy, 3>("buffer_policy"),
      method<digest_of_file, 1>("digest_of_file"),
      method<snapshot, 5>("snapshot"),
  };
}

}  // namespace lockstep::python
