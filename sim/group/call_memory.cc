#include "lockstep/sim/group/detail/call_memory.h"

#include <utility>

namespace lockstep::sim {

CallMemory::CallMemory(const CollectiveCall& call, Pool& pool) {
  const std::size_t n_inputs = call.inputs.size();
  const std::size_t n = n_inputs + call.outputs.size();
  Memory* place = own_.data();
  if (n > own_.size()) place = list_ = static_cast<Memory*>(pool.allocate(n * sizeof(Memory)));
  std::uninitialized_copy(call.inputs.begin(), call.inputs.end(), place);
  std::uninitialized_copy(call.outputs.begin(), call.outputs.end(), place + n_inputs);
  inputs_ = {place, n_inputs};
  outputs_ = {place + n_inputs, call.outputs.size()};
}

std::vector<std::byte> CallMemory::input_bytes() const {
  std::vector<std::byte> bytes;
  for (const Memory& input : inputs_) {
    const auto* first = static_cast<const std::byte*>(input.data);
    bytes.insert(bytes.end(), first, first + input.count * size_of(input.dtype));
  }
  return bytes;
}

void CallMemory::contribute(std::vector<std::byte> bytes) {
  contribution_ = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  std::byte* at = contribution_->data();
  for (Memory& input : inputs_) {
    input.data = at;
    at += input.count * size_of(input.dtype);
  }
}

void CallMemory::release(Pool& pool) {
  if (list_ == nullptr) return;
  pool.release(list_, (inputs_.size() + outputs_.size()) * sizeof(Memory));
  list_ = nullptr;
}

}  // namespace lockstep::sim
