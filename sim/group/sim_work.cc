#include "lockstep/sim/group/detail/sim_work.h"

#include <algorithm>
#include <exception>
#include <new>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/poison.h"

namespace lockstep::sim {

void flip_bit(void* data, const Memory& like, std::int64_t element, std::int32_t bit) {
  const std::int64_t width = size_of(like.dtype);
  const std::int64_t place = bit % (width * 8);
  auto* bytes = static_cast<std::byte*>(data) + element % like.count * width;
  bytes[place / 8] ^= std::byte{1} << static_cast<unsigned>(place % 8);
}

SimWork* SimWork::make(SimProcessGroup& group, const CollectiveCall& call, std::int64_t seq) {
  void* block = group.runtime().pool().allocate(sizeof(SimWork));
  auto* work = new (block) SimWork(group, call, seq);
  group.runtime().note_made();
  group.add_pending(*work);
  return work;
}

SimWork::SimWork(SimProcessGroup& group, const CollectiveCall& call, std::int64_t seq)
    : WorkState(call.signature),
      registry_(&group.registry()),
      group_(&group),
      runtime_(&group.runtime()),
      handle_(&group.handle()),
      seq_(seq),
      rank_(group.handle().rank()),
      group_id_(group.id()),
      member_(group.rank()),
      wrapper_(call.wrapper),
      from_any_source_(call.signature.op == CollectiveOp::kRecv && call.signature.peer < 0) {
  keep(call);
  if (runtime_->in_flight() == nullptr) return;
  const bool of_the_program = wrapper_ < 0 && runtime_->accelerator() == nullptr;
  if (of_the_program) look_for_touches();
  lend();
  if (of_the_program) guard();
}

SimWork::~SimWork() = default;

// The call's lists are the caller's; most operations have one buffer on each side.
void SimWork::keep(const CollectiveCall& call) {
  const std::size_t n_inputs = call.inputs.size();
  const std::size_t n = n_inputs + call.outputs.size();
  Memory* place = own_.data();
  if (n > own_.size()) {
    n_list_ = n;
    list_ = static_cast<Memory*>(runtime_->pool().allocate(n * sizeof(Memory)));
    place = list_;
  }
  std::uninitialized_copy(call.inputs.begin(), call.inputs.end(), place);
  std::uninitialized_copy(call.outputs.begin(), call.outputs.end(), place + n_inputs);
  inputs_ = {place, n_inputs};
  outputs_ = {place + n_inputs, call.outputs.size()};
}

std::vector<std::byte> SimWork::input_bytes() const {
  std::vector<std::byte> bytes;
  for (const Memory& input : inputs_) {
    const auto* first = static_cast<const std::byte*>(input.data);
    bytes.insert(bytes.end(), first, first + input.count * size_of(input.dtype));
  }
  return bytes;
}

void SimWork::contribute(std::vector<std::byte> bytes) {
  contribution_ = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  std::byte* at = contribution_->data();
  Memory* input = list_ != nullptr ? list_ : own_.data();
  for (std::size_t i = 0; i < inputs_.size(); ++i, ++input) {
    input->data = at;
    at += input->count * size_of(input->dtype);
  }
}

void SimWork::flip_result() {
  if (outputs_.empty() || outputs_.front().count == 0) return;
  const Memory& output = outputs_.front();
  name_result(0);
  flip_bit(output.data, output, corrupt_element_, corrupt_bit_);
}

void SimWork::destroy() {
  abandon();
  Pool& pool = runtime_->pool();
  runtime_->note_gone();
  if (list_ != nullptr) pool.release(list_, n_list_ * sizeof(Memory));
  this->~SimWork();
  pool.release(this, sizeof(SimWork));
}

bool SimWork::only_reads() const {
  return signature().op == CollectiveOp::kBroadcast && signature().root == member_;
}

// Posting is an access as any other, and what is posted may have been read too early.
void SimWork::look_for_touches() {
  InFlight& in_flight = *runtime_->in_flight();
  const auto look = [&](const Memory& memory, bool written) {
    const auto* begin = static_cast<const std::byte*>(memory.data);
    in_flight.access(begin,
                     begin + memory.count * size_of(memory.dtype),
                     {name_of(signature().op), written, signature().site});
  };
  for (const Memory& input : inputs_) {
    const auto number = find_poison(input.data, input.count, input.dtype);
    if (number) in_flight.read_early(*number, {name_of(signature().op), false, signature().site});
    look(input, false);
  }
  for (const Memory& output : outputs_) look(output, !only_reads());
}

void SimWork::lend() {
  loan_ = registry_->next_loan();
  const auto lend_one = [this](const Memory& memory, bool written) {
    const auto* begin = static_cast<const std::byte*>(memory.data);
    const std::byte* end = begin + memory.count * size_of(memory.dtype);
    if (begin != end) {
      runtime_->in_flight()->lend({.begin = begin,
                                   .end = end,
                                   .written = written,
                                   .work = loan_,
                                   .site = signature().site,
                                   .call = signature().op,
                                   .group = group_id_,
                                   .seq = seq_,
                                   .wrapper = wrapper_});
    }
  };
  for (const Memory& input : inputs_) lend_one(input, false);
  for (const Memory& output : outputs_) lend_one(output, !only_reads());
}

void SimWork::guard() {
  const auto is_seen = [](const Memory& memory) { return memory.by_operations_only; };
  if (std::all_of(inputs_.begin(), inputs_.end(), is_seen) &&
      std::all_of(outputs_.begin(), outputs_.end(), is_seen)) {
    return;
  }
  Memory* const place = list_ != nullptr ? list_ : own_.data();
  guard_ = std::make_unique<MemoryGuard>(registry_->stand_ins(rank_),
                                         loan_,
                                         std::span(place, inputs_.size()),
                                         std::span(place + inputs_.size(), outputs_.size()),
                                         only_reads());
}

void SimWork::give_back() {
  if (loan_ == 0 || runtime_->in_flight() == nullptr) return;
  InFlight& in_flight = *runtime_->in_flight();
  if (guard_ != nullptr) {
    guard_->hand_back();
    for (const Memory& memory : guard_->written()) {
      const auto* begin = static_cast<const std::byte*>(memory.data);
      in_flight.access(
          begin, begin + memory.count * size_of(memory.dtype), {"raw memory", true, {}});
    }
    guard_.reset();
  }
  in_flight.give_back(loan_);
  loan_ = 0;
}

// The last handle is gone. Where an exception passes, that is not what was meant to happen.
void SimWork::abandon() {
  if (loan_ == 0 || runtime_->in_flight() == nullptr) return;
  const bool leaving = std::uncaught_exceptions() > 0;
  if (wrapper_ < 0 && !leaving) runtime_->in_flight()->abandoned(loan_);
  guard_.reset();
  runtime_->in_flight()->give_back(loan_);
  loan_ = 0;
}

void SimWork::set_sender(std::int32_t peer, std::int64_t seq) {
  set_peer(peer);
  seq_ = seq;
  group_->record_sender(*this);
}

bool SimWork::is_completed() {
  handle_->point({PointKind::kWait, 0});
  if (done_) give_back();
  return done_;
}

CommStatus SimWork::wait() {
  if (!done_) {
    registry_->ranks().set_waiting(rank_, this);
    const WaitReason reason{
        .what = name_of(signature().op), .group = group_id_, .seq = seq_, .site = signature().site};
    while (!done_ && !handle_->block(reason)) continue;
    registry_->ranks().set_waiting(rank_, nullptr);
    // Only a rank that is unwinding already comes back without an answer.
    if (!done_) return CommStatus::kAborted;
  }
  give_back();
  return status_;
}

void SimWork::complete(CommStatus status, const std::string* detail) {
  registry_->world().touch(rank_object(rank_));
  status_ = status;
  detail_ = detail;
  done_ = true;
  if (deadline != 0) registry_->deadlines().forget(*this);
  if (watch != 0) registry_->watchdog().forget(*this);
  if (delay != 0) registry_->faults().forget_delay(*this);
  if (lost) registry_->faults().forget_lost(*this);
  if (corrupt_ && status == CommStatus::kOk) flip_result();
  // An operation that its own rank gave up has no end in the trace: that is what happened to it.
  const bool unknown_sender = from_any_source_ && signature().peer < 0;
  if (status != CommStatus::kAborted && !unknown_sender) group_->record(*this);
  group_->remove_pending(*this);
  group_ = nullptr;
  registry_->ranks().wake_waiter(*this);
}

bool is_message(const SimWork& work) {
  return work.signature().op == CollectiveOp::kSend || work.signature().op == CollectiveOp::kRecv;
}

void SimWork::on_action(const Action& /*action*/) { Mailbox::deliver(*this); }

}  // namespace lockstep::sim
