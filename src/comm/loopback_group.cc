#include "lockstep/comm/loopback_group.h"

#include <cstring>
#include <fmt/core.h>
#include <new>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/reduction_order.h"

namespace lockstep {

namespace {

// Already completed when it is made.
class LoopbackWork final : public WorkState {
 public:
  static Work make(Pool& pool, const Signature& signature) {
    void* block = pool.allocate(sizeof(LoopbackWork));
    return Work(Ref<WorkState>(new (block) LoopbackWork(pool, signature)));
  }

  const Signature& signature() const override { return signature_; }

  bool is_completed() override { return true; }

  CommStatus wait() override { return CommStatus::kOk; }

 private:
  LoopbackWork(Pool& pool, const Signature& signature) : signature_(signature), pool_(&pool) {}

  ~LoopbackWork() override = default;

  void destroy() override {
    Pool* pool = pool_;
    this->~LoopbackWork();
    pool->release(this, sizeof(LoopbackWork));
  }

  Signature signature_;
  Pool* pool_;
};

class LoopbackGroup final : public ProcessGroup {
 public:
  LoopbackGroup(Runtime& runtime, std::int32_t id, std::shared_ptr<std::int32_t> n_groups)
      : runtime_(&runtime), id_(id), n_groups_(std::move(n_groups)) {}

  std::int32_t rank() const override { return 0; }

  std::int32_t size() const override { return 1; }

  std::int32_t id() const override { return id_; }

  Rank world_rank(std::int32_t group_rank) const override {
    LOCKSTEP_CHECK(group_rank == 0,
                   fmt::format("no rank {} in this group: it has 1 rank", group_rank));
    return Rank{0};
  }

  std::string_view backend() const override { return "loopback"; }

  std::string_view reduction_order() const override { return "rank"; }

  Runtime& runtime() override { return *runtime_; }

  std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                      CallSite /*site*/) override {
    const std::int32_t id = (*n_groups_)++;
    if (group_ranks.empty()) return nullptr;
    LOCKSTEP_CHECK(group_ranks.size() == 1 && group_ranks.front() == 0,
                   fmt::format("cannot split ranks {} off a group of one: it has only rank 0",
                               join(group_ranks)));
    return std::make_unique<LoopbackGroup>(*runtime_, id, n_groups_);
  }

 protected:
  Work post(const CollectiveCall& call) override {
    const std::int64_t seq = n_posted_++;
    record_posted(call, seq);
    // With one rank every operation but a scaled sum hands the input on.
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const Memory& from = call.inputs[i];
      const Memory& to = call.outputs[i];
      if (call.signature.reduce == ReduceOp::kPremulSum) {
        scale(call.signature, from, to);
        continue;
      }
      if (from.data == to.data || to.count == 0) continue;
      std::memmove(to.data, from.data, static_cast<std::size_t>(to.count * size_of(to.dtype)));
    }
    record_completed(call, seq, CommStatus::kOk);
    return LoopbackWork::make(runtime_->pool(), call.signature);
  }

 private:
  void scale(const Signature& signature, const Memory& from, const Memory& to) {
    void* output = to.data;
    const void* input = from.data;
    reduce_in_order(runtime_->kernels(),
                    {.outputs = std::span<void* const>(&output, 1),
                     .inputs = std::span<const void* const>(&input, 1),
                     .count = to.count,
                     .dtype = to.dtype,
                     .op = signature.reduce,
                     .premul = signature.premul},
                    ReductionOrder::kRank);
  }

  Runtime* runtime_;
  std::int32_t id_;
  std::shared_ptr<std::int32_t> n_groups_;  // Of the whole family: ids are never reused.
  std::int64_t n_posted_ = 0;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_loopback_group(Runtime& runtime) {
  return std::make_unique<LoopbackGroup>(runtime, 0, std::make_shared<std::int32_t>(1));
}

}  // namespace lockstep
