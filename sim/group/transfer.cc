#include "lockstep/sim/group/detail/memory/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/tensor/contents.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kAhead = 4;  // Works whose members are asked for before their turn.

void copy(const Memory& to, const Memory& from, std::int64_t n_bytes) {
  if (to.data == from.data || n_bytes == 0) return;
  std::memmove(to.data, from.data, static_cast<std::size_t>(n_bytes));
}

// Part `r` of a list, or of the one buffer that holds all of them.
Memory part_of(std::span<const Memory> list, std::size_t r, std::size_t n_ranks) {
  if (list.size() == n_ranks) return list[r];
  const std::int64_t n = list.front().count / static_cast<std::int64_t>(n_ranks);
  return list.front().slice(static_cast<std::int64_t>(r) * n, n);
}

void copy(const Memory& to, const Memory& from) {
  copy(to, from, std::min(to.count * size_of(to.dtype), from.count * size_of(from.dtype)));
}

// Every member now has the same bytes.
void name_result(std::span<SimWork* const> works) {
  Contents* const contents = works.front()->group().runtime().contents();
  if (contents == nullptr) return;
  const std::uint64_t content = contents->fresh();
  const auto size_of_result = [](const SimWork* work) {
    const Memory& result = work->outputs().front();
    return work->outputs().size() == 1 ? result.count * size_of(result.dtype) : 0;
  };
  for (SimWork* work : works) {
    if (size_of_result(work) == size_of_result(works.front())) work->leave(content);
  }
}

void broadcast(std::span<SimWork* const> works, std::int64_t n_bytes) {
  const auto root = static_cast<std::size_t>(works.front()->signature().root);
  const Memory& source = works[root]->inputs().front();
  for (const SimWork* work : works) copy(work->outputs().front(), source, n_bytes);
}

// One buffer on each rank, as long as all inputs.
bool gathers_in_one(std::span<SimWork* const> works) {
  const auto n_ranks = static_cast<std::int64_t>(works.size());
  const Memory& first = works.front()->inputs().front();
  return n_ranks > 1 && std::all_of(works.begin(), works.end(), [&](const SimWork* work) {
           const Memory& input = work->inputs().front();
           const Memory& output = work->outputs().front();
           return work->outputs().size() == 1 && input.dtype == first.dtype &&
                  input.count == first.count && output.dtype == first.dtype &&
                  output.count == n_ranks * first.count;
         });
}

void all_gather(std::span<SimWork* const> works) {
  const bool in_one = gathers_in_one(works);
  const Memory& whole = works.front()->outputs().front();
  for (const SimWork* to : works) {
    // A rank's own input may lie at its place in the output: copying all of it leaves it as it is.
    if (in_one && to != works.front()) {
      copy(to->outputs().front(), whole);
      continue;
    }
    for (std::size_t r = 0; r < works.size(); ++r) {
      copy(part_of(to->outputs(), r, works.size()), works[r]->inputs().front());
    }
  }
}

void gather(std::span<SimWork* const> works) {
  const auto root = static_cast<std::size_t>(works.front()->signature().root);
  for (std::size_t r = 0; r < works.size(); ++r) {
    copy(works[root]->outputs()[r], works[r]->inputs().front());
  }
}

void scatter(std::span<SimWork* const> works) {
  const auto root = static_cast<std::size_t>(works.front()->signature().root);
  for (std::size_t r = 0; r < works.size(); ++r) {
    copy(works[r]->outputs().front(), works[root]->inputs()[r]);
  }
}

void all_to_all(std::span<SimWork* const> works) {
  for (std::size_t to = 0; to < works.size(); ++to) {
    for (std::size_t from = 0; from < works.size(); ++from) {
      copy(works[to]->outputs()[from], works[from]->inputs()[to]);
    }
  }
}

}  // namespace

void Transfer::run(std::span<SimWork* const> works) {
  switch (works.front()->signature().op) {
    case CollectiveOp::kAllReduce:
      all_reduce(works);
      return name_result(works);
    case CollectiveOp::kReduce:
      return reduce(works);
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(works);
    case CollectiveOp::kBroadcast:
      return broadcast(
          works, works.front()->signature().count * size_of(works.front()->signature().dtype));
    case CollectiveOp::kAllGather:
      return all_gather(works);
    case CollectiveOp::kGather:
      return gather(works);
    case CollectiveOp::kScatter:
      return scatter(works);
    case CollectiveOp::kAllToAll:
      return all_to_all(works);
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return;
  }
}

// Fills in what the signature of `model` says; the operands are the scratch lists.
void Transfer::reduce_lists(const SimWork& model, RankReduction job) {
  job.outputs = outputs_;
  job.inputs = inputs_;
  job.op = model.signature().reduce;
  job.premul = model.signature().premul;
  reduce_in_order(model.group().runtime().kernels(), job, order_);
}

// Several buffers lie one after another, as Gloo reduces them.
void Transfer::all_reduce(std::span<SimWork* const> works) {
  const SimWork& model = *works.front();
  const std::size_t n_buffers = model.inputs().size();
  std::int64_t offset = 0;
  for (std::size_t b = 0; b < n_buffers; ++b) {
    inputs_.clear();
    outputs_.clear();
    for (std::size_t r = 0; r < works.size(); ++r) {
      if (r + kAhead < works.size()) works[r + kAhead]->prefetch();
      inputs_.push_back(works[r]->inputs()[b].data);
      outputs_.push_back(works[r]->outputs()[b].data);
    }
    const Memory& data = model.inputs()[b];
    reduce_lists(model,
                 {.outputs = {},
                  .inputs = {},
                  .count = data.count,
                  .dtype = data.dtype,
                  .offset = offset,
                  .total = model.signature().count});
    offset += data.count;
  }
}

void Transfer::reduce(std::span<SimWork* const> works) {
  inputs_.clear();
  for (const SimWork* work : works) inputs_.push_back(work->inputs().front().data);
  const std::int32_t root = works.front()->signature().root;
  outputs_.assign(1, works[static_cast<std::size_t>(root)]->outputs().front().data);
  const Memory& data = works.front()->inputs().front();
  reduce_lists(
      *works.front(),
      {.outputs = {}, .inputs = {}, .count = data.count, .dtype = data.dtype, .last = root});
}

void Transfer::reduce_scatter(std::span<SimWork* const> works) {
  std::int64_t offset = 0;
  for (std::size_t part = 0; part < works.size(); ++part) {
    inputs_.clear();
    for (const SimWork* work : works) {
      inputs_.push_back(part_of(work->inputs(), part, works.size()).data);
    }
    const Memory& output = works[part]->outputs().front();
    outputs_.assign(1, output.data);
    reduce_lists(*works.front(),
                 {.outputs = {},
                  .inputs = {},
                  .count = output.count,
                  .dtype = output.dtype,
                  .last = static_cast<std::int32_t>(part),
                  .offset = offset,
                  .total = works.front()->signature().count});
    offset += output.count;
  }
}

void Transfer::run_garbage(std::span<SimWork* const> works) {
  const auto is_barrier = [](const SimWork* work) {
    return work->signature().op == CollectiveOp::kBarrier;
  };
  const SimWork& model = **std::find_if_not(works.begin(), works.end(), is_barrier);
  const DType dtype = model.signature().dtype;
  std::int64_t count = model.signature().count;
  for (const SimWork* work : works) {
    const Signature& signature = work->signature();
    // Of several buffers only the first takes part.
    const std::int64_t n = is_barrier(work) ? 0 : work->outputs().front().count;
    const std::int64_t has = is_barrier(work) ? 1 : n * size_of(signature.dtype) / size_of(dtype);
    count = std::min(count, has);
  }
  if (model.signature().op == CollectiveOp::kBroadcast) {
    return broadcast(works, count * size_of(dtype));
  }
  std::vector<std::array<std::byte, 8>> zeros(works.size());
  inputs_.clear();
  outputs_.clear();
  for (std::size_t r = 0; r < works.size(); ++r) {
    void* data = is_barrier(works[r]) ? zeros[r].data() : works[r]->outputs().front().data;
    inputs_.push_back(data);
    outputs_.push_back(data);
  }
  reduce_lists(model, {.outputs = {}, .inputs = {}, .count = count, .dtype = dtype});
}

void Transfer::deliver(const SimWork& send, const SimWork& recv) {
  copy(recv.outputs().front(), send.inputs().front());
}

}  // namespace lockstep::sim
