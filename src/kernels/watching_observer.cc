#include "lockstep/kernels/watching_observer.h"

#include "lockstep/tensor/in_flight.h"

namespace lockstep {

namespace {

/// Calls f(tensor, operand) for each tensor that there is.
template <typename F>
void for_each_tensor(const KernelCall& call, F f) {
  for (const KernelOperand& operand : call.operands) {
    for (const Tensor& tensor : operand.tensors()) {
      if (tensor.defined()) f(tensor, operand);
    }
  }
}

/// All operands are one rank's.
const Runtime* runtime_of(const KernelCall& call) {
  for (const KernelOperand& operand : call.operands) {
    for (const Tensor& tensor : operand.tensors()) {
      if (tensor.defined()) return &tensor.runtime();
    }
  }
  return nullptr;
}

void look(InFlight& in_flight, const KernelCall& call) {
  for_each_tensor(call, [&](const Tensor& tensor, const KernelOperand& operand) {
    const std::byte* const begin = tensor.address();
    const std::byte* const end = begin + tensor.n_bytes();
    const bool writes = operand.is_written();
    if (in_flight.touched(begin, end, writes) == nullptr) return;
    in_flight.access(begin, end, {.operation = name_of(call.op), .writes = writes});
  });
}

/// What is computed from an exchange's result carries its bit.
void pass_on(ExchangeWatch& exchanges, const KernelCall& call) {
  std::uint32_t carried = 0;
  for_each_tensor(call, [&](const Tensor& tensor, const KernelOperand& operand) {
    if (operand.is_written()) return;
    const std::uint32_t origin = tensor.storage()->origin();
    exchanges.on_read(origin);
    carried |= exchanges.carried(origin);
  });
  for_each_tensor(call, [&](const Tensor& tensor, const KernelOperand& operand) {
    if (!operand.is_written()) return;
    Storage& storage = *tensor.storage();
    const bool whole = tensor.n_bytes() == storage.n_bytes();
    storage.set_origin(exchanges.written(storage.origin(), carried, whole));
  });
}

}  // namespace

void WatchingObserver::around(const KernelCall& call, KernelRun run) {
  if (const Runtime* const runtime = runtime_of(call)) {
    InFlight* const in_flight = runtime->in_flight();
    if (in_flight != nullptr && !in_flight->idle()) look(*in_flight, call);
    ExchangeWatch* const exchanges = runtime->exchanges();
    if (exchanges != nullptr && !exchanges->idle()) pass_on(*exchanges, call);
  }
  run();
}

}  // namespace lockstep
