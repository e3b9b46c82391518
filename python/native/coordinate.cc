#include "lockstep/python/native/coordinate.h"
// Python's header comes first.
#include <csignal>
#include <memory>
#include <optional>

#include "lockstep/laws/wait_for.h"
#include "lockstep/sim/process/call_fault.h"
#include "lockstep/sim/process/coordinator.h"

namespace lockstep::python {

namespace {

using sim::Coordination;
using sim::CoordinatorOptions;
using sim::ProcessHandles;

/// The order of the function's arguments.
enum Place : std::size_t {
  kSockets,
  kPids,
  kArenas,
  kArenaBytes,
  kMode,
  kStrategy,
  kSeed,
  kOrder,
  kPairing,
  kExpire,
  kFaults,
  kLimits,
  kStore,
  kPlaces,
};

[[noreturn]] void refuse(const std::string& what) {
  PyErr_SetString(PyExc_ValueError, what.c_str());
  throw PythonError();
}

std::string bytes_of(PyObject* object) {
  char* data = nullptr;
  Py_ssize_t n = 0;
  if (PyBytes_AsStringAndSize(object, &data, &n) != 0) throw PythonError();
  return {data, static_cast<std::size_t>(n)};
}

std::vector<ProcessHandles> handles_of(const Arguments& arguments) {
  const std::vector<std::int32_t> sockets = arguments.small_integers(kSockets);
  const std::vector<std::int32_t> pids = arguments.small_integers(kPids);
  const std::vector<PyObject*> arenas = members_of(arguments.object(kArenas));
  const std::int64_t bytes = arguments.integer(kArenaBytes);
  if (sockets.empty() || pids.size() != sockets.size() || arenas.size() != sockets.size())
    refuse("sockets, pids and arenas are lists of the same length, one entry per rank");
  if (bytes < 0) refuse("an arena has no negative size");
  std::vector<ProcessHandles> handles(sockets.size());
  for (std::size_t r = 0; r < sockets.size(); ++r) {
    void* const arena = PyLong_AsVoidPtr(arenas[r]);
    if (PyErr_Occurred() != nullptr) throw PythonError();
    handles[r] = {.socket = sockets[r],
                  .pid = pids[r],
                  .arena = static_cast<std::byte*>(arena),
                  .arena_bytes = static_cast<std::size_t>(bytes)};
  }
  return handles;
}

void read_limits(const Arguments& arguments, CoordinatorOptions& options) {
  const std::vector<std::int32_t> limits = arguments.small_integers(kLimits);
  if (limits.size() > 4) refuse("there are four limits");
  const auto limit = [&](std::size_t i) {
    if (i < limits.size() && limits[i] < 0) refuse("a limit is not negative");
    return i < limits.size() ? limits[i] : 0;
  };
  if (limit(0) > 0) options.most_naps = limit(0);
  if (limit(1) > 0) options.outside.asleep_ms = limit(1);
  options.outside.verdict_ms = limit(2);
  if (limit(3) > 0) options.outside.grace_ms = limit(3);
}

void read_group(const Arguments& arguments, CoordinatorOptions& options) {
  const std::string order(arguments.text(kOrder));
  const std::optional<ReductionOrder> known = parse_reduction_order(order);
  if (!known) refuse("unknown order of reductions '" + order + "'");
  options.group.order = *known;
  const std::string pairing(arguments.text(kPairing));
  const std::optional<sim::Pairing> pairs = parse_enum<sim::Pairing>(pairing);
  if (!pairs) refuse("pairing is strict, gloo_like or nccl_like, not '" + pairing + "'");
  options.group.pairing = *pairs;
}

void read_options(const Arguments& arguments, CoordinatorOptions& options) {
  const std::string mode(arguments.text(kMode));
  if (mode != "parallel" && mode != "serial") {
    refuse("mode is parallel or serial, not '" + mode + "'");
  }
  options.serial = mode == "serial";
  if (const std::string_view strategy = arguments.text(kStrategy); !strategy.empty())
    options.strategy = strategy;
  options.seed = arguments.word(kSeed);
  read_group(arguments, options);
  options.expires = arguments.flag(kExpire);
  for (const std::string_view fault : arguments.texts(kFaults)) options.faults.emplace_back(fault);
  read_limits(arguments, options);
  const std::vector<PyObject*> store = members_of(arguments.object(kStore));
  if (store.size() % 2 != 0) refuse("the store is a list of keys and values, one after the other");
  for (std::size_t i = 0; i < store.size(); i += 2) {
    options.store[bytes_of(store[i])] = bytes_of(store[i + 1]);
  }
}

/// Without the interpreter lock, while it lives.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}

  ~WithoutLock() { PyEval_RestoreThread(state_); }

  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;
  WithoutLock(WithoutLock&&) = delete;
  WithoutLock& operator=(WithoutLock&&) = delete;

 private:
  PyThreadState* state_;
};

/// A dictionary under construction. Each value is taken over.
class Dictionary {
 public:
  Dictionary() : dictionary_(checked(PyDict_New())) {}

  void set(const char* key, PyObject* value) {
    const Owned owned(checked(value));
    if (PyDict_SetItemString(dictionary_.get(), key, owned.get()) != 0) throw PythonError();
  }

  PyObject* take() { return dictionary_.release(); }

 private:
  Owned dictionary_;
};

/// What processes say may be anything.
PyObject* any_text(const std::string& value) {
  return checked(
      PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

PyObject* optional_number(const std::optional<std::int32_t>& value) {
  return value ? checked(PyLong_FromLong(*value)) : none();
}

template <typename Items, typename Make>
PyObject* list_of(const Items& items, Make make) {
  Owned list(checked(PyList_New(0)));
  for (const auto& item : items) {
    const Owned made(checked(make(item)));
    if (PyList_Append(list.get(), made.get()) != 0) throw PythonError();
  }
  return list.release();
}

std::string_view name_of_outcome(sim::RankOutcome outcome) {
  switch (outcome) {
    case sim::RankOutcome::kFinished:
      return "finished";
    case sim::RankOutcome::kThrew:
      return "threw";
    case sim::RankOutcome::kKilled:
      return "killed";
    case sim::RankOutcome::kStuck:
      return "stuck";
  }
  return "";
}

PyObject* ending(const sim::RankEnding& end) {
  Dictionary result;
  result.set("outcome", text(name_of_outcome(end.outcome)));
  result.set("exit_code", optional_number(end.exit.code));
  result.set("signal", optional_number(end.exit.signal));
  result.set("stopped", PyBool_FromLong(end.stopped ? 1 : 0));
  result.set("text", any_text(end.text));
  result.set("now_ns", PyLong_FromLongLong(end.time.ns));
  return result.take();
}

PyObject* bytes(const std::string& value) {
  return PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
}

PyObject* log_line(const sim::LogLine& line) {
  Owned entry(checked(PyTuple_New(3)));
  PyTuple_SetItem(entry.get(), 0, checked(PyLong_FromLong(to_int(line.rank))));
  PyTuple_SetItem(entry.get(), 1, checked(PyLong_FromLongLong(line.time.ns)));
  PyTuple_SetItem(entry.get(), 2, any_text(line.text));
  return entry.release();
}

PyObject* result_of(const Coordination& found) {
  Dictionary result;
  result.set("outcome", text(name_of(found.outcome)));
  result.set("ends", list_of(found.ends, ending));
  result.set("first_failure", optional_number(found.first_failure));
  result.set("signal", found.signal != 0 ? PyLong_FromLong(found.signal) : none());
  result.set("error", any_text(found.error));
  result.set("wait_for", any_text(found.wait_for));
  result.set("wait_for_dot", any_text(render_dot(found.wait_for_graph)));
  result.set("missing",
             list_of(found.missing, [](Rank rank) { return PyLong_FromLong(to_int(rank)); }));
  result.set("stacks",
             list_of(found.ends, [](const sim::RankEnding& end) { return any_text(end.stack); }));
  result.set("schedule", text(found.schedule));
  result.set("token", text(found.token));
  std::vector<std::string> store;
  for (const auto& [key, value] : found.store) {
    store.push_back(key);
    store.push_back(value);
  }
  result.set("store", list_of(store, bytes));
  result.set("struck", list_of(found.struck, any_text));
  result.set("notes", list_of(found.notes, any_text));
  result.set("report", any_text(render_json(found.report)));
  result.set("log", list_of(found.log, log_line));
  result.set("now_ns", PyLong_FromLongLong(found.time.ns));
  result.set("n_requests", PyLong_FromUnsignedLongLong(found.n_requests));
  return result.take();
}

/// The processes are this function's from here on: an argument that is wrong ends them as well.
Result<Coordination> run(const Arguments& arguments) {
  CoordinatorOptions options;
  options.processes = handles_of(arguments);
  try {
    read_options(arguments, options);
  } catch (const PythonError&) {
    for (const ProcessHandles& handles : options.processes) sim::RankProcess ended(handles);
    throw;
  }
  options.take_signals = true;
  const WithoutLock without_lock;
  return sim::coordinate(std::move(options));
}

PyObject* torn_save(const sim::TornSave& torn) {
  return checked(Py_BuildValue("(iLi)",
                               torn.rank,
                               static_cast<long long>(torn.save),
                               torn.percent));  // NOLINT(google-runtime-int)
}

}  // namespace

PyObject* torn_saves(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&] {
    const Arguments arguments(values, n, 2);
    const std::vector<std::string_view> words = arguments.texts(0);
    const Result<sim::CallFaults> planned = sim::parse_call_faults(words, arguments.small(1));
    if (!planned.ok()) refuse(planned.error().text());
    return list_of(planned.value().torn, torn_save);
  });
}

PyObject* coordinate(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Result<Coordination> found = run(Arguments(values, n, kPlaces));
    if (!found.ok()) refuse(found.error().text());
    if (found.value().signal != 0) {
      ::raise(found.value().signal);
      if (PyErr_CheckSignals() != 0) throw PythonError();
    }
    return result_of(found.value());
  });
}

}  // namespace lockstep::python
