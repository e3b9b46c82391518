#include "lockstep/sim/group/detail/memory/memory_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/poison.h"

namespace lockstep::sim {

namespace {

const std::byte* begin_of(const Memory& memory) {
  return static_cast<const std::byte*>(memory.data);
}

std::size_t n_bytes_of(const Memory& memory) {
  return static_cast<std::size_t>(memory.count * size_of(memory.dtype));
}

const std::byte* end_of(const Memory& memory) { return begin_of(memory) + n_bytes_of(memory); }

bool contains(const Memory& whole, const Memory& part) {
  return begin_of(whole) <= begin_of(part) && end_of(part) <= end_of(whole);
}

bool overlap(const Memory& a, const Memory& b) {
  return begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}

std::uint64_t digest_of(const Memory& memory) {
  return sm64(memory.data, memory.count, memory.dtype);
}

/// Whether the program's memory is still as the guard left it.
bool is_untouched(const StandIn& stand_in) {
  const Memory& own = stand_in.own;
  if (stand_in.exposed) return true;
  return can_be_poisoned(own.dtype) ? holds_poison(own.data, own.count, own.dtype, stand_in.number)
                                    : digest_of(own) == stand_in.digest;
}

/// Where `part` of the program's memory lies in its stand-in.
void* place_in(StandIn& stand_in, const Memory& part) {
  return stand_in.bytes.data() + (begin_of(part) - begin_of(stand_in.own));
}

bool holds(std::span<StandIn* const> list, const StandIn* one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

void give_back(const StandIn& stand_in) {
  std::memcpy(stand_in.own.data, stand_in.bytes.data(), stand_in.bytes.size());
}

}  // namespace

StandIn* StandIns::find(const Memory& memory) {
  const auto found = std::find_if(
      open_.begin(), open_.end(), [&](const auto& one) { return contains(one->own, memory); });
  return found == open_.end() ? nullptr : found->get();
}

StandIn& StandIns::open(const Memory& memory, std::uint64_t number) {
  if (spare_.empty()) spare_.push_back(std::make_unique<StandIn>());
  StandIn& stand_in = *open_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  stand_in.own = memory;
  stand_in.bytes.assign(begin_of(memory), end_of(memory));
  stand_in.number = number;
  stand_in.n_transfers = 0;
  stand_in.exposed = false;
  if (can_be_poisoned(memory.dtype)) {
    fill_with_poison(memory.data, memory.count, memory.dtype, number);
  } else {
    stand_in.digest = digest_of(memory);
  }
  return stand_in;
}

void StandIns::close(StandIn& stand_in) {
  const auto found = std::find_if(
      open_.begin(), open_.end(), [&](const auto& one) { return one.get() == &stand_in; });
  spare_.push_back(std::move(*found));
  open_.erase(found);
}

void StandIns::expose(const Memory& memory) {
  for (const auto& stand_in : open_) {
    if (stand_in->exposed || !overlap(stand_in->own, memory)) continue;
    give_back(*stand_in);
    stand_in->exposed = true;
  }
}

MemoryGuard::MemoryGuard(StandIns& stand_ins,
                         std::uint64_t number,
                         std::span<Memory> inputs,
                         std::span<Memory> outputs,
                         bool only_reads)
    : stand_ins_(&stand_ins), number_(number) {
  if (!only_reads) {
    for (Memory& output : outputs) guard_output(output);
  }
  for (Memory& input : inputs) guard_input(input);
  if (only_reads) outputs.front().data = inputs.front().data;
}

void MemoryGuard::guard_output(Memory& output) {
  if (output.count == 0) return;
  StandIn* stand_in = stand_ins_->find(output);
  if (stand_in == nullptr) {
    stand_ins_->expose(output);
    stand_in = &stand_ins_->open(output, number_);
  }
  if (!holds(outputs_, stand_in)) {
    outputs_.push_back(stand_in);
    ++stand_in->n_transfers;
  }
  output.data = place_in(*stand_in, output);
}

void MemoryGuard::guard_input(Memory& input) {
  if (input.count == 0) return;
  if (StandIn* const stand_in = stand_ins_->find(input)) {
    // It has the values: the buffer is also an output, of this transfer or of an earlier one.
    if (!holds(outputs_, stand_in) && !holds(sources_, stand_in)) {
      sources_.push_back(stand_in);
      ++stand_in->n_transfers;
    }
    input.data = place_in(*stand_in, input);
    return;
  }
  stand_ins_->expose(input);
  inputs_.push_back({input, digest_of(input)});
}

void MemoryGuard::release(StandIn& stand_in) {
  if (--stand_in.n_transfers == 0) stand_ins_->close(stand_in);
}

MemoryGuard::~MemoryGuard() {
  for (StandIn* stand_in : outputs_) release(*stand_in);
  for (StandIn* stand_in : sources_) release(*stand_in);
}

void MemoryGuard::hand_back() {
  for (StandIn* stand_in : outputs_) {
    if (!is_untouched(*stand_in)) written_.push_back(stand_in->own);
    give_back(*stand_in);
    stand_in->exposed = true;
    release(*stand_in);
  }
  outputs_.clear();
  for (StandIn* stand_in : sources_) release(*stand_in);
  sources_.clear();
  for (const Watched& input : inputs_) {
    if (digest_of(input.memory) != input.digest) written_.push_back(input.memory);
  }
  inputs_.clear();
}

}  // namespace lockstep::sim
