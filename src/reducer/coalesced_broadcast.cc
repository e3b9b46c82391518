#include "lockstep/reducer/coalesced_broadcast.h"

#include <memory_resource>
#include <utility>

#include "lockstep/reducer/layout_digest.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

CoalescedBroadcast::CoalescedBroadcast(std::vector<NamedVariable> variables, std::int64_t cap_bytes)
    : variables_(std::move(variables)) {
  if (variables_.empty()) return;
  std::pmr::vector<PlannedTensor> tensors(&variables_.front().variable.runtime().pool());
  tensors.reserve(variables_.size());
  for (const NamedVariable& entry : variables_) {
    const Tensor& data = entry.variable.data();
    tensors.push_back({data.n_elems(), data.dtype(), data.device()});
  }
  plan_ = compute_bucket_assignment_by_size(tensors, std::span<const std::int64_t>(&cap_bytes, 1));
  layouts_.reserve(plan_.buckets.size());
  for (const std::vector<std::int32_t>& bucket : plan_.buckets) {
    LayoutDigest digest;
    std::int64_t offset = 0;
    for (const std::int32_t member : bucket) {
      const NamedVariable& entry = variables_[static_cast<std::size_t>(member)];
      digest.add(entry.name, offset);
      offset += entry.variable.data().n_elems();
    }
    layouts_.push_back(digest.value());
  }
}

void CoalescedBroadcast::run(ProcessGroup& group, std::int32_t root, const OpOptions& options) {
  // With two in flight, the older is finished before a third starts.
  std::array<Flight, 2> flights;
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    Flight& flight = flights[b % 2];
    if (flight.work.valid()) finish(flight);
    flight = start(group, root, options, b);
  }
  const std::size_t n = plan_.buckets.size();
  for (std::size_t b = n < 2 ? 0 : n - 2; b < n; ++b) finish(flights[b % 2]);
}

CoalescedBroadcast::Flight CoalescedBroadcast::start(ProcessGroup& group,
                                                     std::int32_t root,
                                                     OpOptions options,
                                                     std::size_t bucket) const {
  const std::vector<std::int32_t>& members = plan_.buckets[bucket];
  options.layout = layouts_[bucket];
  Flight flight;
  flight.bucket = bucket;
  const Tensor& first = variables_[static_cast<std::size_t>(members.front())].variable.data();
  if (members.size() == 1) {
    flight.work = group.broadcast(Memory::of(first), root, options);
    return flight;
  }
  std::int64_t n_elems = 0;
  for (const std::int32_t member : members) {
    n_elems += variables_[static_cast<std::size_t>(member)].variable.data().n_elems();
  }
  flight.flat = Tensor::empty(group.runtime(), {n_elems}, first.dtype());
  std::int64_t offset = 0;
  for (const std::int32_t member : members) {
    const Tensor& data = variables_[static_cast<std::size_t>(member)].variable.data();
    if (data.n_elems() > 0) {
      group.runtime().kernels().copy(flight.flat.slice(offset, data.shape()), data);
    }
    offset += data.n_elems();
  }
  flight.work = group.broadcast(Memory::of(flight.flat), root, options);
  return flight;
}

void CoalescedBroadcast::finish(Flight& flight) const {
  flight.work.wait_or_throw();
  if (!flight.flat.defined()) return;
  std::int64_t offset = 0;
  for (const std::int32_t member : plan_.buckets[flight.bucket]) {
    const Tensor& data = variables_[static_cast<std::size_t>(member)].variable.data();
    if (data.n_elems() > 0) {
      data.runtime().kernels().copy(data, flight.flat.slice(offset, data.shape()));
    }
    offset += data.n_elems();
  }
}

}  // namespace lockstep
