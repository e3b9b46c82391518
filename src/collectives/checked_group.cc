#include "lockstep/collectives/checked_group.h"

#include <array>
#include <bit>
#include <fmt/core.h>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/collectives/monitored_barrier.h"
#include "lockstep/collectives/object_collectives.h"
#include "lockstep/comm/signature.h"

namespace lockstep {

namespace {

constexpr std::int64_t kNoTensor = -1;

/// A signature and the size of the tensor that PyTorch compares, as words that travel.
struct Fingerprint {
  static constexpr std::size_t kWords = 12;
  using Words = std::array<std::int64_t, kWords>;

  Signature signature;
  std::int64_t tensor_count = kNoTensor;
  bool coalesced = false;
  std::int64_t sender = 0;  ///< Whose words these are: block r of a gather came from rank r.

  Words words() const {
    return {static_cast<std::int64_t>(signature.op),
            static_cast<std::int64_t>(signature.reduce),
            static_cast<std::int64_t>(signature.dtype),
            static_cast<std::int64_t>(signature.device),
            signature.root,
            signature.count,
            std::bit_cast<std::int64_t>(signature.premul),
            std::bit_cast<std::int64_t>(signature.splits),
            std::bit_cast<std::int64_t>(signature.layout),
            tensor_count,
            coalesced ? 1 : 0,
            sender};
  }

  static Fingerprint of(std::span<const std::int64_t> words) {
    Fingerprint print;
    print.signature.op = static_cast<CollectiveOp>(words[0]);
    print.signature.reduce = static_cast<ReduceOp>(words[1]);
    print.signature.dtype = static_cast<DType>(words[2]);
    print.signature.device = static_cast<Device>(words[3]);
    print.signature.root = static_cast<std::int32_t>(words[4]);
    print.signature.count = words[5];
    print.signature.premul = std::bit_cast<double>(words[6]);
    print.signature.splits = std::bit_cast<std::uint64_t>(words[7]);
    print.signature.layout = std::bit_cast<std::uint64_t>(words[8]);
    print.tensor_count = words[9];
    print.coalesced = words[10] == 1;
    print.sender = words[11];
    return print;
  }
};

// The tensor that PyTorch fingerprints, if the operation has one.
std::int64_t tensor_count_of(const CollectiveCall& call) {
  switch (call.signature.op) {
    case CollectiveOp::kAllReduce:
      return call.inputs.size() == 1 ? call.inputs.front().count : kNoTensor;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      return call.inputs.front().count;
    case CollectiveOp::kAllGather:
      return call.signature.splits == 0 ? call.inputs.front().count : kNoTensor;
    case CollectiveOp::kScatter:
      return call.outputs.front().count;
    case CollectiveOp::kReduceScatter:
      return call.signature.splits == 0 ? call.outputs.front().count : kNoTensor;
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return kNoTensor;
  }
  return kNoTensor;
}

std::string torch_name(const Fingerprint& print) {
  if (print.coalesced) return "ALLREDUCE_COALESCED";
  switch (print.signature.op) {
    case CollectiveOp::kAllReduce:
      return "ALLREDUCE";
    case CollectiveOp::kBroadcast:
      return "BROADCAST";
    case CollectiveOp::kReduce:
      return "REDUCE";
    case CollectiveOp::kAllGather:
      return "ALLGATHER";
    case CollectiveOp::kReduceScatter:
      return "REDUCE_SCATTER";
    case CollectiveOp::kGather:
      return "GATHER";
    case CollectiveOp::kScatter:
      return "SCATTER";
    case CollectiveOp::kAllToAll:
      return "ALLTOALL";
    case CollectiveOp::kBarrier:
      return "BARRIER";
    case CollectiveOp::kSend:
      return "SEND";
    case CollectiveOp::kRecv:
      return "RECV";
  }
  return "UNKNOWN";
}

std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "Float";
    case DType::kF64:
      return "Double";
    case DType::kF16:
      return "Half";
    case DType::kBF16:
      return "BFloat16";
    case DType::kI8:
      return "Char";
    case DType::kU8:
      return "Byte";
    case DType::kI32:
      return "Int";
    case DType::kI64:
      return "Long";
    case DType::kBool:
      return "Bool";
  }
  return "Undefined";
}

std::string torch_text(const Fingerprint& print) {
  std::string text = "CollectiveFingerPrint(OpType=" + torch_name(print);
  if (print.tensor_count == kNoTensor) return text + ")";
  const std::string device = print.signature.device == Device::kCpu ? "cpu" : "cuda";
  return text + ", TensorShape=[" + std::to_string(print.tensor_count) +
         "], TensorDtypes=" + torch_name(print.signature.dtype) +
         ", TensorDeviceTypes=TensorOptions(dtype=float (default), device=" + device +
         ", layout=Strided (default), requires_grad=false (default), pinned_memory=false "
         "(default), memory_format=(nullopt)))";
}

class CheckError final : public CommError {
 public:
  CheckError(const Signature& signature, std::string text)
      : CommError(CommStatus::kMismatch, signature, Verbatim{std::move(text)}) {}
};

bool is_message(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

}  // namespace

class CheckedGroup final : public ProcessGroup {
 public:
  CheckedGroup(std::unique_ptr<ProcessGroup> inner, Duration timeout, CallSite site)
      : inner_(std::move(inner)), timeout_(timeout) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(inner_->size()));
    std::iota(all.begin(), all.end(), 0);
    helper_ = inner_->split(all, site);
  }

  std::int32_t rank() const override { return inner_->rank(); }

  std::int32_t size() const override { return inner_->size(); }

  std::int32_t id() const override { return inner_->id(); }

  Rank world_rank(std::int32_t group_rank) const override { return inner_->world_rank(group_rank); }

  std::string_view backend() const override { return inner_->backend(); }

  std::string_view reduction_order() const override { return inner_->reduction_order(); }

  Runtime& runtime() override { return inner_->runtime(); }

  bool names_results() const override { return inner_->names_results(); }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                      CallSite site) override {
    std::unique_ptr<ProcessGroup> part = inner_->split(group_ranks, site);
    if (part == nullptr) return nullptr;
    return std::make_unique<CheckedGroup>(std::move(part), timeout_, site);
  }

  void abandon(std::int32_t wrapper) override { inner_->abandon(wrapper); }

 protected:
  Work post(const CollectiveCall& call) override {
    if (!is_message(call.signature.op)) check(call);
    return inner_->post(call);
  }

 private:
  void check(const CollectiveCall& call) {
    const Fingerprint mine{call.signature,
                           tensor_count_of(call),
                           call.signature.op == CollectiveOp::kAllReduce && call.inputs.size() > 1,
                           rank()};
    const OpOptions options{.site = call.signature.site};
    meet(mine, options);
    Fingerprint::Words words = mine.words();
    std::vector<std::int64_t> all(words.size() * static_cast<std::size_t>(size()));
    helper_
        ->all_gather_into_tensor(
            Memory::of(std::span(all)), Memory::of(std::span<std::int64_t>(words)), options)
        .wait_or_throw();
    std::vector<Fingerprint> prints;
    bool agree = true;
    for (std::size_t at = 0; at < all.size(); at += words.size()) {
      prints.push_back(Fingerprint::of(std::span(all).subspan(at, words.size())));
      agree = agree && same_signature(prints.front().signature, prints.back().signature);
    }
    check_order(mine, prints);
    if (!agree) complain(mine, prints, options);
  }

  // A transport that numbers its ranks in another way exchanges blocks of everything it gathers.
  static void check_order(const Fingerprint& mine, const std::vector<Fingerprint>& prints) {
    std::string text;
    for (std::size_t r = 0; r < prints.size(); ++r) {
      if (prints[r].sender == static_cast<std::int64_t>(r)) continue;
      text += (text.empty() ? "block " : ", block ") + std::to_string(r) + " came from rank " +
              std::to_string(prints[r].sender);
    }
    if (text.empty()) return;
    throw CheckError(
        mine.signature,
        "the transport numbers ranks differently from the group: of what is gathered, " + text);
  }

  void meet(const Fingerprint& mine, const OpOptions& options) {
    try {
      monitored_barrier(*helper_, timeout_, true, options);
    } catch (const MonitoredBarrierError& error) {
      throw MonitoredBarrierError(
          mine.signature,
          "ProcessGroupWrapper: Monitored Barrier encountered error running collective: " +
              torch_text(mine) + ". Error: \n" + error.what(),
          error.missing());
    }
  }

  // All members see the same prints, so all come here together and exchange their call sites.
  [[noreturn]] void complain(const Fingerprint& mine,
                             const std::vector<Fingerprint>& prints,
                             const OpOptions& options) {
    const std::vector<std::string> sites =
        all_gather_object(*helper_, describe(mine.signature.site), options);
    std::size_t other = 0;
    while (same_signature(prints[other].signature, mine.signature)) ++other;
    const auto self = static_cast<std::size_t>(rank());
    const std::size_t left = std::min(self, other);
    const std::size_t right = std::max(self, other);
    std::string text;
    if (torch_text(prints[other]) != torch_text(mine)) {
      text = "Detected mismatch between collectives on ranks. Rank " + std::to_string(self) +
             " is running collective: " + torch_text(mine) + ", but Rank " + std::to_string(other) +
             " is running collective: " + torch_text(prints[other]) + ".\n";
    }
    const auto difference = first_difference(prints[left].signature, prints[right].signature);
    const auto side = [&](std::size_t r, const std::string& value) {
      const std::string at = sites[r].empty() ? sites[r] : " (" + sites[r] + ")";
      return "rank " + std::to_string(r) + " " + value + at;
    };
    text += std::string(difference->field) + " differs at #" + std::to_string(n_collectives() - 1) +
            ": " + side(left, difference->left) + ", " + side(right, difference->right);
    throw CheckError(mine.signature, std::move(text));
  }

  std::unique_ptr<ProcessGroup> inner_;
  std::unique_ptr<ProcessGroup> helper_;
  Duration timeout_;
};

std::unique_ptr<ProcessGroup> make_checked_group(std::unique_ptr<ProcessGroup> group,
                                                 Duration timeout,
                                                 CallSite site) {
  LOCKSTEP_CHECK(
      group != nullptr && timeout.ns > 0,
      fmt::format("a checked group wraps a group, got {}, and has a positive timeout, got {} ns",
                  group == nullptr ? "none" : "one",
                  timeout.ns));
  return std::make_unique<CheckedGroup>(std::move(group), timeout, site);
}

}  // namespace lockstep
