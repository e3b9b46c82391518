#include "lockstep/harness/run/raw_program.h"

#include <map>
#include <memory>
#include <stdexcept>

#include "lockstep/base/text.h"
#include "lockstep/harness/scenario/call_sites.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {
namespace {

Shape shape_of(const RawTensor& tensor) {
  return Shape(std::span<const std::int64_t>(tensor.shape));
}

Tensor make_tensor(const RawTensor& declared, RankContext& context) {
  Runtime& runtime = context.runtime();
  const Shape shape = shape_of(declared);
  if (!declared.by_rank.empty()) {
    const auto rank = static_cast<std::size_t>(context.rank());
    return Tensor::of(runtime, shape, declared.dtype, declared.by_rank[rank]);
  }
  if (!declared.values.empty()) return Tensor::of(runtime, shape, declared.dtype, declared.values);
  return Tensor::full(runtime, shape, declared.dtype, declared.fill.value_or(context.rank() + 1));
}

std::string values_text(const Tensor& tensor) {
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) values.push_back(exact(tensor.at(i)));
  return "[" + join(values) + "]";
}

/// One rank's interpreter. Bodies of `repeat` are frames of a list, not recursion.
class Interpreter {
 public:
  Interpreter(const Scenario& scenario, RankContext& context) : context_(context) {
    for (const auto& [name, tensor] : scenario.tensors) {
      if (tensor.view.empty()) tensors_[name] = make_tensor(tensor, context);
    }
    for (const auto& [name, tensor] : scenario.tensors) {
      if (tensor.view.empty()) continue;
      tensors_[name] = tensors_.at(tensor.view).slice(tensor.offset, shape_of(tensor));
    }
    for (const auto& [name, lists] : scenario.groups) {
      for (const std::vector<std::int32_t>& ranks : lists) join_group(name, ranks, {});
    }
  }

  /// Returns false when the program said `exit`.
  bool run(const std::vector<RawOp>& program) {
    std::vector<Frame> frames = {{&program, 0, 1}};
    while (!frames.empty()) {
      Frame& frame = frames.back();
      if (frame.next == frame.body->size()) {
        frame.next = 0;
        if (--frame.times <= 0) frames.pop_back();
        continue;
      }
      const RawOp& op = (*frame.body)[frame.next++];
      if (op.op == RawOpKind::kExit) return false;
      if (op.op == RawOpKind::kRepeat) {
        if (op.times > 0 && !op.body.empty()) frames.push_back({&op.body, 0, op.times});
      } else {
        execute(op);
      }
    }
    return true;
  }

 private:
  struct Frame {
    const std::vector<RawOp>* body;
    std::size_t next;
    std::int64_t times;
  };

  void execute(const RawOp& op) {
    switch (op.op) {
      case RawOpKind::kWait:
        return wait(op);
      case RawOpKind::kGroup:
        return join_group(op.name, op.ranks, intern_site(context_.runtime(), op.site));
      case RawOpKind::kExpect:
        return expect(op);
      case RawOpKind::kThrow:
        throw std::runtime_error(op.name);
      case RawOpKind::kCompute:
        context_.host().spend({op.number});
        return context_.host().point({});
      case RawOpKind::kDecision:
        context_.host().point({.kind = PointKind::kDecision});
        return record(op);
      case RawOpKind::kLog:
        return record(op);
      case RawOpKind::kWrite:
      case RawOpKind::kRead:
        return touch(op);
      default:
        return communicate(op);
    }
  }

  void record(const RawOp& op) {
    Recorder* const recorder = context_.runtime().recorder();
    if (recorder == nullptr) return;
    const NameId name = recorder->names().intern(op.name);
    if (op.op == RawOpKind::kDecision) {
      recorder->record(DecisionEvent{.name = name, .value = op.number});
    } else {
      recorder->record(LogEvent{.text = name});
    }
  }

  void touch(const RawOp& op) {
    const AccessSite site(context_.runtime().in_flight(), site_of(op));
    const Tensor& tensor = tensors_.at(op.tensor);
    if (op.op == RawOpKind::kRead) return read(op.tensor, tensor);
    context_.runtime().kernels().fill(tensor, op.value);
    tensor.storage()->bump_version();
  }

  /// What was read is part of the run's result, so that runs which read something else differ.
  void read(const std::string& name, const Tensor& tensor) {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(tensor.n_elems()));
    for (std::int64_t i = 0; i < tensor.n_elems(); ++i) values.push_back(tensor.at(i));
    Recorder* const recorder = context_.runtime().recorder();
    if (recorder == nullptr) return;
    const NameId names[] = {recorder->names().intern(name)};
    const std::uint64_t digests[] = {sm64(values.data(), tensor.n_elems(), DType::kF64)};
    recorder->record(StateEvent{.kind = StateKind::kBuffer,
                                .point = StatePoint::kEval,
                                .layout = recorder->names().intern_layout(names),
                                .digests = digests});
  }

  /// Where an operation is reported at: its own site, or its line in the scenario.
  CallSite site_of(const RawOp& op) {
    if (!op.site.empty()) return intern_site(context_.runtime(), op.site);
    return intern_site(context_.runtime(), op.where.substr(0, op.where.rfind(':')));
  }

  void wait(const RawOp& op) {
    const auto work = works_.find(op.work);
    if (work == works_.end()) {
      throw std::runtime_error(op.where + ": no work '" + op.work + "' was started");
    }
    const Work started = work->second;
    works_.erase(work);
    started.wait_or_throw();
  }

  void expect(const RawOp& op) {
    const AccessSite site(context_.runtime().in_flight(), site_of(op));
    const Tensor& tensor = tensors_.at(op.tensor);
    bool equal = static_cast<std::size_t>(tensor.n_elems()) == op.equals.size();
    for (std::size_t i = 0; equal && i < op.equals.size(); ++i) {
      equal = tensor.at(static_cast<std::int64_t>(i)) == op.equals[i];
    }
    if (equal) return;
    std::vector<std::string> wanted;
    for (const double value : op.equals) wanted.push_back(exact(value));
    throw std::runtime_error(op.where + ": tensor '" + op.tensor + "' is " + values_text(tensor) +
                             " on rank " + std::to_string(context_.rank()) + ", expected [" +
                             lockstep::join(wanted) + "]");
  }

  void join_group(const std::string& name, const std::vector<std::int32_t>& ranks, CallSite site) {
    std::unique_ptr<ProcessGroup> group = context_.world().split(ranks, site);
    if (group != nullptr) groups_[name] = std::move(group);
  }

  ProcessGroup& group_of(const RawOp& op) {
    if (op.group.empty()) return context_.world();
    const auto group = groups_.find(op.group);
    if (group == groups_.end()) {
      throw std::runtime_error(op.where + ": rank " + std::to_string(context_.rank()) +
                               " is in no group '" + op.group + "'");
    }
    return *group->second;
  }

  // A program of a scenario has no other means to touch memory than operations on tensors.
  static Memory memory_of(const Tensor& tensor) {
    Memory memory = Memory::of(tensor);
    memory.by_operations_only = true;
    return memory;
  }

  Memory memory_of(const std::string& name) const { return memory_of(tensors_.at(name)); }

  /// One equal slice of `name` a member of the group.
  std::vector<Memory> slices_of(const RawOp& op, const std::string& name, std::int32_t n) const {
    const Tensor& tensor = tensors_.at(name);
    if (tensor.n_elems() % n != 0) {
      throw std::runtime_error(op.where + ": tensor '" + name + "' does not divide by " +
                               std::to_string(n) + " ranks");
    }
    const std::int64_t each = tensor.n_elems() / n;
    std::vector<Memory> slices;
    slices.reserve(static_cast<std::size_t>(n));
    for (std::int32_t i = 0; i < n; ++i) {
      slices.push_back(memory_of(tensor.slice(i * each, Shape{each})));
    }
    return slices;
  }

  void communicate(const RawOp& op) {
    const OpOptions options = {.async = !op.work.empty(),
                               .site = intern_site(context_.runtime(), op.site)};
    Work work = post(op, group_of(op), options);
    if (op.work.empty()) {
      work.wait_or_throw();
    } else {
      works_[op.work] = std::move(work);
    }
  }

  /// Of those with one buffer per rank on one side, `tensor` goes in and `output` comes out.
  Work post(const RawOp& op, ProcessGroup& group, const OpOptions& options) {
    const auto tensor = [&] { return memory_of(op.tensor); };
    const auto output = [&] { return memory_of(op.name); };
    const auto parts_of = [&](const std::string& name) {
      return slices_of(op, name, group.size());
    };
    const auto at_root = [&](const std::string& name) {
      return group.rank() == op.root ? parts_of(name) : std::vector<Memory>();
    };
    switch (op.op) {
      case RawOpKind::kAllReduce:
        return group.all_reduce(tensor(), op.reduce, options);
      case RawOpKind::kBroadcast:
        return group.broadcast(tensor(), op.root, options);
      case RawOpKind::kReduce:
        return group.reduce(tensor(), op.root, op.reduce, options);
      case RawOpKind::kSend:
        return group.send(tensor(), op.peer, op.tag, options);
      case RawOpKind::kRecv:
        return group.recv(tensor(), op.peer, op.tag, options);
      case RawOpKind::kAllGather:
        return group.all_gather(parts_of(op.name), tensor(), options);
      case RawOpKind::kReduceScatter:
        return group.reduce_scatter(output(), parts_of(op.tensor), op.reduce, options);
      case RawOpKind::kAllToAll:
        return group.all_to_all(parts_of(op.name), parts_of(op.tensor), options);
      case RawOpKind::kGather:
        return group.gather(at_root(op.name), tensor(), op.root, options);
      case RawOpKind::kScatter:
        return group.scatter(output(), at_root(op.tensor), op.root, options);
      default:
        return group.barrier(options);
    }
  }

  RankContext& context_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::unique_ptr<ProcessGroup>> groups_;
  std::map<std::string, Work> works_;
};

}  // namespace

void run_program(const Scenario& scenario, RankContext& context) {
  Interpreter interpreter(scenario, context);
  for (const RawProgram& program : scenario.programs) {
    if (program.ranks.contains(context.rank()) && !interpreter.run(program.body)) return;
  }
}

}  // namespace lockstep
