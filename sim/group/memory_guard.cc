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

void give_back(const StandIn& stand_in) {
  std::memcpy(stand_in.own.data, stand_in.bytes.data(), stand_in.bytes.size());
}

}  // namespace

//   open_, by begin:    ├──┤  ├───┤ ├─┤      ├────────┤  ├─┤
//   memory:                          ├────────────┤
//   looked at:                ◄──────────────┘ until no longer one would reach it
template <typename See>
void StandIns::each_near(const Memory& memory, See see) {
  auto next = std::lower_bound(
      open_.begin(), open_.end(), end_of(memory), [](const auto& one, const std::byte* end) {
        return begin_of(one->own) < end;
      });
  while (next != open_.begin()) {
    StandIn& one = **--next;
    if (begin_of(one.own) + longest_ <= begin_of(memory)) return;
    see(one);
  }
}

StandIn* StandIns::find(const Memory& memory) {
  StandIn* first = nullptr;
  each_near(memory, [&](StandIn& one) {
    if (contains(one.own, memory) && (first == nullptr || one.order < first->order)) first = &one;
  });
  return first;
}

StandIn& StandIns::open(const Memory& memory, std::uint64_t number) {
  if (spare_.empty()) spare_.push_back(std::make_unique<StandIn>());
  if (open_.empty()) longest_ = 0;
  longest_ = std::max(longest_, n_bytes_of(memory));
  const auto place = std::upper_bound(
      open_.begin(), open_.end(), begin_of(memory), [](const std::byte* begin, const auto& one) {
        return begin < begin_of(one->own);
      });
  StandIn& stand_in = **open_.insert(place, std::move(spare_.back()));
  spare_.pop_back();
  stand_in.own = memory;
  stand_in.bytes.assign(begin_of(memory), end_of(memory));
  stand_in.number = number;
  stand_in.order = ++n_opened_;
  stand_in.n_transfers = 0;
  stand_in.exposed = false;
  if (can_be_poisoned(memory.dtype)) {
    fill_with_poison(memory.data, memory.count, memory.dtype, number);
  } else {
    stand_in.digest = digest_of(memory);
  }
  return stand_in;
}

void StandIns::close_unused() {
  auto end = open_.begin();
  for (std::unique_ptr<StandIn>& one : open_) {
    if (one->n_transfers > 0) {
      *end++ = std::move(one);
    } else {
      spare_.push_back(std::move(one));
    }
  }
  open_.erase(end, open_.end());
}

void StandIns::expose(const Memory& memory) {
  each_near(memory, [&](StandIn& one) {
    if (one.exposed || !overlap(one.own, memory)) return;
    give_back(one);
    one.exposed = true;
  });
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
  outputs_.push_back(stand_in);
  ++stand_in->n_transfers;
  output.data = place_in(*stand_in, output);
}

void MemoryGuard::guard_input(Memory& input) {
  if (input.count == 0) return;
  if (StandIn* const stand_in = stand_ins_->find(input)) {
    // It has the values: the buffer is also an output, of this transfer or of an earlier one.
    sources_.push_back(stand_in);
    ++stand_in->n_transfers;
    input.data = place_in(*stand_in, input);
    return;
  }
  stand_ins_->expose(input);
  inputs_.push_back({input, digest_of(input)});
}

void MemoryGuard::release() {
  for (StandIn* stand_in : outputs_) --stand_in->n_transfers;
  for (StandIn* stand_in : sources_) --stand_in->n_transfers;
  outputs_.clear();
  sources_.clear();
  stand_ins_->close_unused();
}

MemoryGuard::~MemoryGuard() { release(); }

void MemoryGuard::hand_back() {
  for (StandIn* stand_in : outputs_) {
    if (!is_untouched(*stand_in)) written_.push_back(stand_in->own);
    give_back(*stand_in);
    stand_in->exposed = true;
  }
  release();
  for (const Watched& input : inputs_) {
    if (digest_of(input.memory) != input.digest) written_.push_back(input.memory);
  }
  inputs_.clear();
}

}  // namespace lockstep::sim
