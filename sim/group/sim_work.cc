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

namespace {

bool is_called_alike(const Signature& a, const Signature& b) {
  return a.op == b.op && a.count == b.count && a.layout == b.layout && a.reduce == b.reduce &&
         a.dtype == b.dtype && a.device == b.device && a.async == b.async && a.root == b.root &&
         a.peer == b.peer && a.tag == b.tag && a.premul == b.premul && a.splits == b.splits &&
         a.site.file == b.site.file && a.site.line == b.site.line && a.site.scope == b.site.scope;
}

}  // namespace

Ref<SharedSignature> SharedSignature::of(const Signature& signature, Ref<SharedSignature>& known) {
  if (known && is_called_alike(known->get(), signature)) return known;
  if (known && known->use_count() == 1) {
    known->signature_ = signature;  // Of a call that all have forgotten.
  } else {
    known = Ref<SharedSignature>(new SharedSignature(signature));
  }
  return known;
}

SimWork* SimWork::make(SimProcessGroup& group,
                       const CollectiveCall& call,
                       std::int64_t seq,
                       Ref<SharedSignature>& known) {
  static_assert(sizeof(SimWork) <= 256);
  void* block = group.runtime().pool().allocate(sizeof(SimWork));
  auto* work = new (block) SimWork(group, call, seq, known);
  group.runtime().note_made();
  group.add_pending(*work);
  return work;
}

SimWork::SimWork(SimProcessGroup& group,
                 const CollectiveCall& call,
                 std::int64_t seq,
                 Ref<SharedSignature>& known)
    : signature_(SharedSignature::of(call.signature, known)),
      group_(&group),
      runtime_(&group.runtime()),
      handle_(&group.handle()),
      seq_(seq),
      rank_(group.handle().rank()),
      member_(group.rank()),
      wrapper_(call.wrapper),
      from_any_source_(call.signature.op == CollectiveOp::kRecv && call.signature.peer < 0),
      memory_(call, group.runtime().pool()) {
  if (runtime_->in_flight() == nullptr) return;
  const bool of_the_program = wrapper_ < 0 && runtime_->accelerator() == nullptr;
  if (of_the_program) look_for_touches();
  lend();
  if (of_the_program) guard();
}

SimWork::~SimWork() = default;

SimWork::Tampering& SimWork::tampering() {
  if (tampering_ == nullptr) tampering_ = std::make_unique<Tampering>();
  return *tampering_;
}

void SimWork::contribute(std::vector<std::byte> bytes) {
  tampering().contribution = std::move(bytes);
  memory_.contribute(tampering_->contribution);
}

void SimWork::corrupt_result(std::int64_t element, std::int32_t bit) {
  tampering().corruption = Tampering::Corruption{element, bit};
}

void SimWork::flip_result() {
  if (outputs().empty() || outputs().front().count == 0) return;
  const Memory& output = outputs().front();
  name_result(0);
  flip_bit(output.data, output, tampering_->corruption->element, tampering_->corruption->bit);
}

void SimWork::destroy() {
  abandon();
  Pool& pool = runtime_->pool();
  runtime_->note_gone();
  memory_.release(pool);
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
  for (const Memory& input : inputs()) {
    const auto number = find_poison(input.data, input.count, input.dtype);
    if (number) in_flight.read_early(*number, {name_of(signature().op), false, signature().site});
    look(input, false);
  }
  for (const Memory& output : outputs()) look(output, !only_reads());
}

void SimWork::lend() {
  loan_ = group_->registry().next_loan();
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
                                   .group = group_->id(),
                                   .seq = seq_,
                                   .wrapper = wrapper_});
    }
  };
  for (const Memory& input : inputs()) lend_one(input, false);
  for (const Memory& output : outputs()) lend_one(output, !only_reads());
}

void SimWork::guard() {
  const auto is_seen = [](const Memory& memory) { return memory.by_operations_only; };
  if (std::ranges::all_of(inputs(), is_seen) && std::ranges::all_of(outputs(), is_seen)) return;
  guard_ = std::make_unique<MemoryGuard>(group_->registry().stand_ins(rank_),
                                         loan_,
                                         memory_.inputs(),
                                         memory_.outputs(),
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
  Signature known = signature();
  known.peer = peer;
  Ref<SharedSignature> none;
  signature_ = SharedSignature::of(known, none);
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
    RankStates& ranks = group_->registry().ranks();
    ranks.set_waiting(rank_, this);
    const WaitReason reason{.what = name_of(signature().op),
                            .group = group_->id(),
                            .seq = seq_,
                            .site = signature().site};
    while (!done_ && !handle_->block(reason)) continue;
    ranks.set_waiting(rank_, nullptr);
    // Only a rank that is unwinding already comes back without an answer.
    if (!done_) return CommStatus::kAborted;
  }
  give_back();
  return status_;
}

void SimWork::complete(CommStatus status, const std::string* detail) {
  GroupRegistry& registry = group_->registry();
  registry.world().touch(rank_object(rank_));
  status_ = status;
  detail_ = detail;
  done_ = true;
  if (limit > 0) registry.deadlines().forget(*this);
  if (limit < 0) registry.watchdog().forget(*this);
  if (delay != 0) registry.faults().forget_delay(*this);
  if (lost) registry.faults().forget_lost(*this);
  const bool corrupted = tampering_ != nullptr && tampering_->corruption.has_value();
  if (corrupted && status == CommStatus::kOk) flip_result();
  // An operation that its own rank gave up has no end in the trace: that is what happened to it.
  const bool unknown_sender = from_any_source_ && signature().peer < 0;
  if (status != CommStatus::kAborted && !unknown_sender) group_->record(*this);
  group_->remove_pending(*this);
  group_ = nullptr;
  registry.ranks().wake_waiter(*this);
}

bool is_message(const SimWork& work) {
  return work.signature().op == CollectiveOp::kSend || work.signature().op == CollectiveOp::kRecv;
}

void SimWork::on_action(const Action& /*action*/) { Mailbox::deliver(*this); }

}  // namespace lockstep::sim
