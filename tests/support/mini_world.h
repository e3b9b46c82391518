// N ranks as coroutines on one thread, with a group that matches calls by sequence number: just
// enough of a world to test distributed code against, written independently of the simulator.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <ucontext.h>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/trace/memory_trace.h"

#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// What a rank's function receives.
struct MiniRank {
  std::int32_t rank = 0;
  Runtime& runtime;
  ProcessGroup& group;
  TestHost& host;
};

struct MiniOptions {
  std::int32_t n_ranks = 2;
  ReductionOrder order = ReductionOrder::kRank;
  bool recorded = true;
  RecordOptions record = {};
  /// Ranks take turns in this order; empty = ascending.
  std::vector<std::int32_t> turns = {};
};

struct MiniResult {
  std::shared_ptr<MemoryTrace> trace;
  std::vector<std::exception_ptr> exceptions;  ///< By rank; null = finished.

  /// what() of the rank's exception, or "".
  std::string error(std::size_t rank) const {
    if (!exceptions[rank]) return {};
    try {
      std::rethrow_exception(exceptions[rank]);
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  bool ok() const {
    for (const std::exception_ptr& e : exceptions) {
      if (e) return false;
    }
    return true;
  }
};

/// The shared side of the group: one slot a sequence number.
class MiniRegistry {
 public:
  struct Arrival {
    bool present = false;
    Signature signature;
    std::vector<Memory> inputs;
    std::vector<Memory> outputs;
    std::int32_t wrapper = -1;
  };

  struct Slot {
    std::vector<Arrival> arrivals;
    std::size_t n_arrived = 0;
    bool done = false;
    CommStatus status = CommStatus::kOk;
  };

  MiniRegistry(std::int32_t n_ranks, ReductionOrder order, std::function<void()> yield)
      : yield_(std::move(yield)), n_ranks_(static_cast<std::size_t>(n_ranks)), order_(order) {}

  std::size_t n_ranks() const { return n_ranks_; }

  const ReductionOrder& order() const { return order_; }

  Slot& slot(std::int64_t seq) {
    const auto i = static_cast<std::size_t>(seq);
    while (slots_.size() <= i) {
      slots_.push_back(std::make_unique<Slot>());
      slots_.back()->arrivals.resize(n_ranks_);
    }
    return *slots_[i];
  }

  void arrive(Slot& slot, std::size_t rank, const CollectiveCall& call, Kernels& kernels) {
    Arrival& mine = slot.arrivals[rank];
    mine.present = true;
    mine.signature = call.signature;
    mine.inputs.assign(call.inputs.begin(), call.inputs.end());
    mine.outputs.assign(call.outputs.begin(), call.outputs.end());
    mine.wrapper = call.wrapper;
    if (++slot.n_arrived == n_ranks_) execute(slot, kernels);
  }

  /// Waits until the slot is done; kStuck when no rank can run any more.
  CommStatus wait(Slot& slot) {
    while (!slot.done) {
      if (stuck) return CommStatus::kStuck;
      yield_();
    }
    return slot.status;
  }

  bool stuck = false;
  bool progressed = false;  ///< A slot was completed since the scheduler last looked.

 private:
  static bool agree(const Signature& a, const Signature& b) {
    return a.op == b.op && a.reduce == b.reduce && a.dtype == b.dtype && a.root == b.root &&
           a.count == b.count && a.layout == b.layout && a.splits == b.splits;
  }

  static void copy(const Memory& to, const Memory& from) {
    if (to.count > 0) {
      std::memmove(to.data, from.data, static_cast<std::size_t>(to.count * size_of(to.dtype)));
    }
  }

  /// Into a buffer per rank, or into one that holds all of them one after another.
  void gather(Arrival& arrival, const Slot& slot) const {
    for (std::size_t s = 0; s < n_ranks_; ++s) {
      const Memory& from = slot.arrivals[s].inputs[0];
      const bool one = arrival.outputs.size() == 1;
      copy(one ? arrival.outputs[0].slice(static_cast<std::int64_t>(s) * from.count, from.count)
               : arrival.outputs[s],
           from);
    }
  }

  /// Of inputs that hold all ranks' parts one after another.
  void scatter_sums(Slot& slot, Kernels& kernels) const {
    const Memory& whole = slot.arrivals[0].inputs[0];
    std::vector<std::vector<std::byte>> sums(
        n_ranks_,
        std::vector<std::byte>(static_cast<std::size_t>(whole.count * size_of(whole.dtype))));
    std::vector<void*> outputs;
    std::vector<const void*> inputs;
    for (std::size_t r = 0; r < n_ranks_; ++r) {
      inputs.push_back(slot.arrivals[r].inputs[0].data);
      outputs.push_back(sums[r].data());
    }
    reduce_in_order(kernels,
                    {.outputs = outputs,
                     .inputs = inputs,
                     .count = whole.count,
                     .dtype = whole.dtype,
                     .op = slot.arrivals[0].signature.reduce},
                    order_);
    for (std::size_t r = 0; r < n_ranks_; ++r) {
      const Memory& out = slot.arrivals[r].outputs[0];
      const Memory all{sums[r].data(), whole.count, whole.dtype};
      copy(out, all.slice(static_cast<std::int64_t>(r) * out.count, out.count));
    }
  }

  void execute(Slot& slot, Kernels& kernels) {
    slot.done = true;
    progressed = true;
    const Signature& first = slot.arrivals[0].signature;
    for (const Arrival& arrival : slot.arrivals) {
      if (!agree(first, arrival.signature)) slot.status = CommStatus::kMismatch;
    }
    if (slot.status != CommStatus::kOk) return;
    const auto root = static_cast<std::size_t>(first.root < 0 ? 0 : first.root);
    for (std::size_t r = 0; r < n_ranks_; ++r) {
      Arrival& arrival = slot.arrivals[r];
      if (first.op == CollectiveOp::kBroadcast && r != root) {
        copy(arrival.outputs[0], slot.arrivals[root].inputs[0]);
      } else if (first.op == CollectiveOp::kAllGather) {
        gather(arrival, slot);
      }
    }
    if (first.op == CollectiveOp::kReduceScatter) scatter_sums(slot, kernels);
    if (first.op == CollectiveOp::kAllReduce) {
      const std::size_t n_buffers = slot.arrivals[0].inputs.size();
      for (std::size_t i = 0; i < n_buffers; ++i) reduce_all(slot, i, kernels);
    }
  }

  /// Into the buffer of this number of every rank.
  void reduce_all(const Slot& slot, std::size_t buffer, Kernels& kernels) const {
    std::vector<void*> outputs;
    std::vector<const void*> inputs;
    for (const Arrival& arrival : slot.arrivals) {
      inputs.push_back(arrival.inputs[buffer].data);
      outputs.push_back(arrival.outputs[buffer].data);
    }
    reduce_in_order(kernels,
                    {.outputs = outputs,
                     .inputs = inputs,
                     .count = slot.arrivals[0].inputs[buffer].count,
                     .dtype = slot.arrivals[0].signature.dtype,
                     .op = slot.arrivals[0].signature.reduce},
                    order_);
  }

  std::function<void()> yield_;
  std::size_t n_ranks_;
  ReductionOrder order_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

/// One rank's view of the registry. Offers all_reduce, broadcast, all_gather, barrier
/// and reduce_scatter_tensor.
class MiniGroup final : public ProcessGroup {
 public:
  MiniGroup(MiniRegistry& registry, std::int32_t rank, Runtime& runtime)
      : registry_(&registry), rank_(rank), runtime_(&runtime) {}

  std::int32_t rank() const override { return rank_; }

  std::int32_t size() const override { return static_cast<std::int32_t>(registry_->n_ranks()); }

  std::int32_t id() const override { return 0; }

  Rank world_rank(std::int32_t group_rank) const override { return Rank{group_rank}; }

  std::string_view backend() const override { return "mini"; }

  std::string_view reduction_order() const override { return name_of(registry_->order()); }

  Runtime& runtime() override { return *runtime_; }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> /*group_ranks*/,
                                      CallSite /*site*/) override {
    throw ContractViolation("a mini group cannot be split");
  }

 private:
  class MiniWork final : public WorkState {
   public:
    MiniWork(MiniGroup& group, const CollectiveCall& call, std::int64_t seq)
        : signature_(call.signature), group_(&group), seq_(seq), wrapper_(call.wrapper) {}

    const Signature& signature() const override { return signature_; }

    bool is_completed() override { return group_->registry_->slot(seq_).done; }

    CommStatus wait() override {
      const CommStatus status = group_->registry_->wait(group_->registry_->slot(seq_));
      const MiniRegistry::Arrival& mine =
          group_->registry_->slot(seq_).arrivals[static_cast<std::size_t>(group_->rank_)];
      group_->record_completed({signature(), mine.inputs, mine.outputs, wrapper_}, seq_, status);
      return status;
    }

   private:
    Signature signature_;
    MiniGroup* group_;
    std::int64_t seq_;
    std::int32_t wrapper_;
  };

  Work post(const CollectiveCall& call) override {
    const std::int64_t seq = n_posted_++;
    record_posted(call, seq);
    Work work(Ref<WorkState>(new MiniWork(*this, call, seq)));
    registry_->arrive(
        registry_->slot(seq), static_cast<std::size_t>(rank_), call, runtime_->kernels());
    return work;
  }

  MiniRegistry* registry_;
  std::int32_t rank_;
  Runtime* runtime_;
  std::int64_t n_posted_ = 0;
};

/// Calls `program` once on every rank and waits for all of them.
class MiniWorld {
 public:
  using Program = std::function<void(MiniRank&)>;

  MiniWorld(const MiniOptions& options, const Program& program)
      : program_(&program),
        names_(std::make_shared<NameTable>()),
        registry_(options.n_ranks, options.order, [this] { swap_to_scheduler(); }) {
    result_.trace = std::make_shared<MemoryTrace>(names_);
    result_.trace->ensure_ranks(options.n_ranks);
    result_.exceptions.resize(static_cast<std::size_t>(options.n_ranks));
    for (std::int32_t r = 0; r < options.n_ranks; ++r) {
      auto seat = std::make_unique<Seat>();
      seat->group = std::make_unique<MiniGroup>(registry_, r, seat->test.runtime);
      if (options.recorded) {
        seat->recorder = std::make_unique<Recorder>(
            Rank{r}, seat->test.host, *names_, *result_.trace, options.record);
        seat->test.runtime.set_recorder(seat->recorder.get());
      }
      seats_.push_back(std::move(seat));
      turns_.push_back(r);
    }
    if (!options.turns.empty()) turns_ = options.turns;
  }

  MiniResult run() {
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(seats_.size()); ++r) prepare(r);
    std::size_t n_left = seats_.size();
    while (n_left > 0) {
      registry_.progressed = false;
      std::size_t n_ended = 0;
      for (const std::int32_t r : turns_) {
        Seat& seat = *seats_[static_cast<std::size_t>(r)];
        if (seat.ended) continue;
        current_ = r;
        swapcontext(&scheduler_, &seat.context);
        if (seat.ended) ++n_ended;
      }
      n_left -= n_ended;
      if (n_ended == 0 && !registry_.progressed) registry_.stuck = true;
    }
    return result_;
  }

 private:
  struct Seat {
    TestRuntime test;
    std::unique_ptr<MiniGroup> group;
    std::unique_ptr<Recorder> recorder;
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(512 * 1024);
    bool ended = false;
  };

  void swap_to_scheduler() {
    swapcontext(&seats_[static_cast<std::size_t>(current_)]->context, &scheduler_);
  }

  void prepare(std::int32_t r) {
    Seat& seat = *seats_[static_cast<std::size_t>(r)];
    getcontext(&seat.context);
    seat.context.uc_stack.ss_sp = seat.stack.data();
    seat.context.uc_stack.ss_size = seat.stack.size();
    seat.context.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&seat.context,
                reinterpret_cast<void (*)()>(&enter),
                2,
                static_cast<unsigned>(self >> 32U),
                static_cast<unsigned>(self & 0xFFFFFFFFU));
  }

  static void enter(unsigned high, unsigned low) {
    const std::uintptr_t self = (static_cast<std::uintptr_t>(high) << 32U) | low;
    reinterpret_cast<MiniWorld*>(self)->run_current();
  }

  void run_current() {
    const auto r = static_cast<std::size_t>(current_);
    Seat& seat = *seats_[r];
    try {
      MiniRank rank{current_, seat.test.runtime, *seat.group, seat.test.host};
      (*program_)(rank);
    } catch (...) {
      result_.exceptions[r] = std::current_exception();
    }
    seat.ended = true;
    swapcontext(&seat.context, &scheduler_);
  }

  const Program* program_;
  std::shared_ptr<NameTable> names_;
  MiniRegistry registry_;
  MiniResult result_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<std::int32_t> turns_;
  ucontext_t scheduler_{};
  std::int32_t current_ = 0;
};

inline MiniResult run_mini_world(const MiniOptions& options, const MiniWorld::Program& program) {
  return MiniWorld(options, program).run();
}

/// The collectives a rank posted, in order: "B i64[16]", "AR f32[115]", "AG i64[1]".
inline std::vector<std::string> collectives_of(const MemoryTrace& trace, std::int32_t rank) {
  std::vector<std::string> texts;
  for (const Event& event : trace.events(Rank{rank})) {
    const auto* collective = std::get_if<CollectiveEvent>(&event.body);
    if (collective == nullptr || collective->phase != CollectivePhase::kPosted) continue;
    const Signature& signature = collective->signature;
    const char* op = signature.op == CollectiveOp::kAllReduce   ? "AR "
                     : signature.op == CollectiveOp::kBroadcast ? "B "
                     : signature.op == CollectiveOp::kAllGather ? "AG "
                                                                : "? ";
    texts.push_back(op + std::string(name_of(signature.dtype)) + "[" +
                    std::to_string(signature.count) + "]");
  }
  return texts;
}

}  // namespace lockstep::testing
