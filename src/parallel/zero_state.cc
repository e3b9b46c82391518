// The state of all shares, brought together and handed out again.
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/collectives/object_collectives.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

/// Values one after the other, in this machine's byte order.
class ByteWriter {
 public:
  void number(std::int64_t value) { bytes(&value, sizeof value); }

  void bytes(const void* data, std::size_t n) { out_.append(static_cast<const char*>(data), n); }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(const std::string& bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }

  std::int64_t number() {
    std::int64_t value = 0;
    bytes(&value, sizeof value);
    return value;
  }

  void bytes(void* data, std::size_t n) {
    LOCKSTEP_CHECK(
        n <= left_.size(),
        fmt::format(
            "a share of optimizer state was cut short: {} bytes are left of {}", left_.size(), n));
    std::memcpy(data, left_.data(), n);
    left_.remove_prefix(n);
  }

  std::string text() {
    std::string value(static_cast<std::size_t>(number()), '\0');
    bytes(value.data(), value.size());
    return value;
  }

 private:
  std::string_view left_;
};

void write_tensor(ByteWriter& out, std::size_t place, const Tensor& tensor) {
  out.number(static_cast<std::int64_t>(place));
  out.number(static_cast<std::int64_t>(tensor.dtype()));
  out.number(static_cast<std::int64_t>(tensor.shape().n_dims()));
  for (std::size_t d = 0; d < tensor.shape().n_dims(); ++d) out.number(tensor.size(d));
  out.bytes(tensor.read_raw(), static_cast<std::size_t>(tensor.n_bytes()));
}

}  // namespace

// By list: name, whether it counts, number of tensors, then place in the share, dtype, shape and
// values of each.
std::string ZeroRedundancyOptimizer::encoded_share() const {
  ByteWriter out;
  if (!local_) return out.take();
  for (const optim::StateList& list : std::as_const(*local_).state()) {
    out.number(static_cast<std::int64_t>(list.name.size()));
    out.bytes(list.name.data(), list.name.size());
    out.number(list.is_count ? 1 : 0);
    out.number(std::count_if(list.tensors.begin(), list.tensors.end(), [](const Tensor& tensor) {
      return tensor.defined();
    }));
    for (std::size_t i = 0; i < list.tensors.size(); ++i) {
      if (list.tensors[i].defined()) write_tensor(out, i, list.tensors[i]);
    }
  }
  return out.take();
}

optim::StateList& ZeroRedundancyOptimizer::whole_list(const std::string& name, bool is_count) {
  for (optim::StateList& list : whole_state_) {
    if (list.name == name) return list;
  }
  whole_state_.push_back(
      {.name = name, .tensors = std::vector<Tensor>(parameters().size()), .is_count = is_count});
  return whole_state_.back();
}

void ZeroRedundancyOptimizer::merge_share(std::int32_t rank, const std::string& bytes) {
  const std::vector<std::size_t> share = share_of(rank);
  ByteReader in(bytes);
  while (!in.empty()) {
    const std::string name = in.text();
    optim::StateList& list = whole_list(name, in.number() != 0);
    const std::int64_t n_tensors = in.number();
    for (std::int64_t n = 0; n < n_tensors; ++n) {
      const auto place = static_cast<std::size_t>(in.number());
      const auto dtype = static_cast<DType>(in.number());
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(in.number()));
      for (std::int64_t& size : sizes) size = in.number();
      const Tensor flat =
          Tensor::empty(runtime(), Shape(std::span<const std::int64_t>(sizes)), dtype);
      in.bytes(flat.write_raw(), static_cast<std::size_t>(flat.n_bytes()));
      list.tensors[share[place]] = flat;
    }
  }
}

void ZeroRedundancyOptimizer::consolidate_state_dict(std::int32_t to) {
  const bool collects = group_->rank() == to;
  whole_state_.clear();
  is_consolidated_ = collects;
  for (std::int32_t rank = 0; rank < group_->size(); ++rank) {
    std::vector<std::string> share(1);
    if (rank == group_->rank()) share.front() = encoded_share();
    if (rank != to) broadcast_object_list(*group_, share, rank, op_options("zero.consolidate"));
    if (collects) merge_share(rank, share.front());
  }
}

optim::OptimizerState ZeroRedundancyOptimizer::state_dict() const {
  if (!is_consolidated_) {
    throw std::runtime_error(
        "Optimizer state has not been consolidated on this rank. Please call "
        "`consolidate_state_dict(to=" +
        std::to_string(group_->rank()) +
        ")` on all ranks beforehand if you meant to save the global state.");
  }
  return {.state = whole_state_, .groups = {groups().begin(), groups().end()}};
}

void ZeroRedundancyOptimizer::load_state_dict(const optim::OptimizerState& whole) {
  LOCKSTEP_CHECK(
      whole.groups.size() == groups().size(),
      fmt::format("a state of {} groups to load into {}", whole.groups.size(), groups().size()));
  for (std::size_t g = 0; g < groups().size(); ++g) {
    static_cast<optim::GroupOptions&>(groups()[g]) = whole.groups[g];
  }
  if (!local_) return;
  const std::vector<std::size_t> share = share_of(group_->rank());
  for (optim::StateList& list : local_->state()) {
    const auto source = std::ranges::find_if(
        whole.state, [&list](const auto& other) { return other.name == list.name; });
    if (source == whole.state.end()) continue;
    LOCKSTEP_CHECK(source->tensors.size() == parameters().size(),
                   fmt::format("state '{}' to load has {} entries for {} parameters",
                               list.name,
                               source->tensors.size(),
                               parameters().size()));
    for (std::size_t i = 0; i < share.size(); ++i) {
      const Tensor& tensor = source->tensors[share[i]];
      list.tensors[i] = tensor.defined() ? tensor.clone() : Tensor();
    }
  }
}

}  // namespace lockstep
