#include "lockstep/sim/group/detail/call_memory.h"

#include <memory>

namespace lockstep::sim {

CallMemory::CallMemory(const CollectiveCall& call, Pool& pool)
    : n_inputs_(static_cast<std::uint32_t>(call.inputs.size())),
      n_outputs_(static_cast<std::uint32_t>(call.outputs.size())) {
  const std::size_t n = call.inputs.size() + call.outputs.size();
  list_ = own_.data();
  if (n > own_.size()) list_ = static_cast<Memory*>(pool.allocate(n * sizeof(Memory)));
  // Of one or two as a rule: not worth a call of memmove.
  Memory* place = list_;
  for (const Memory& input : call.inputs) std::construct_at(place++, input);
  for (const Memory& output : call.outputs) std::construct_at(place++, output);
}

std::vector<std::byte> CallMemory::input_bytes() const {
  std::vector<std::byte> bytes;
  for (const Memory& input : inputs()) {
    const auto* first = static_cast<const std::byte*>(input.data);
    bytes.insert(bytes.end(), first, first + input.count * size_of(input.dtype));
  }
  return bytes;
}

void CallMemory::contribute(std::span<std::byte> bytes) const {
  std::byte* at = bytes.data();
  for (Memory& input : inputs()) {
    input.data = at;
    at += input.count * size_of(input.dtype);
  }
}

void CallMemory::release(Pool& pool) {
  if (list_ == own_.data()) return;
  pool.release(list_, (inputs().size() + outputs().size()) * sizeof(Memory));
  list_ = own_.data();
}

}  // namespace lockstep::sim
