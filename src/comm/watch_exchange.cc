// What losses are made of: calls that send what a graph has computed.
#include <algorithm>
#include <span>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/in_flight.h"

namespace lockstep {

namespace {

/// Operations that give every rank something of what the others sent.
bool exchanges_values(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllToAll;
}

bool is_of_a_graph(const Memory& memory) {
  return memory.storage != nullptr && (memory.storage->origin() & Origin::kFromGraph) != 0;
}

/// The graph's own storage among what a call reads or overwrites, or null.
const Storage* of_the_graph(std::span<const Memory> memories) {
  for (const Memory& memory : memories) {
    if (memory.storage != nullptr && (memory.storage->origin() & Origin::kGraph) != 0) {
      return memory.storage;
    }
  }
  return nullptr;
}

}  // namespace

void ProcessGroup::watch_exchange(const CollectiveCall& call) {
  ExchangeWatch& watch = *runtime().exchanges();
  for (const Memory& memory : call.inputs) {
    if (memory.storage != nullptr) watch.on_read(memory.storage->origin());
  }
  if (!exchanges_values(call.signature.op)) return;
  if (runtime().graph_task() != nullptr) return watch.answer(id());
  if (std::none_of(call.inputs.begin(), call.inputs.end(), is_of_a_graph)) return;
  std::vector<Storage*> results;
  for (const Memory& memory : call.outputs) {
    if (memory.storage != nullptr) results.push_back(memory.storage);
  }
  watch.begin(
      {.call = call.signature.op,
       .reduce = call.signature.reduce,
       .group = id(),
       .seq = n_collectives_ - 1,
       .n_ranks = size(),
       .site = call.signature.site,
       .grad = runtime().grad_enabled()},
      {.results = results, .place = of_the_graph(call.outputs), .sent = of_the_graph(call.inputs)});
}

}  // namespace lockstep
