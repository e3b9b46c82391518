#include "lockstep/sim/process/calls.h"

#include <fmt/core.h>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

/// A request with its memory, and what remains to be done.
class Call {
 public:
  Call(ProcessGroup& group, const PostRequest& request, const RankProcess& process, bool expires)
      : group_(&group), request_(&request) {
    const Result<CallSite> site = process.site(request.file, request.line, request.scope);
    if (!site.ok()) throw ContractViolation(site.error().message);
    options_.async = request.has(PostFlag::kAsync);
    options_.layout = request.layout;
    options_.site = site.value();
    options_.premul = request.premul;
    if (expires && request.timeout_ns > 0) options_.timeout = Duration{request.timeout_ns};
    inputs_ = memories(process, request.inputs);
    outputs_ = memories(process, request.outputs);
  }

  Work post() const {
    const std::int32_t root = request_->root_or_peer;
    switch (request_->op) {
      case CollectiveOp::kAllReduce:
        return all_reduce();
      case CollectiveOp::kBroadcast:
        return group_->broadcast(in_place(), root, options_);
      case CollectiveOp::kReduce:
        return group_->reduce(in_place(), root, request_->reduce, options_);
      case CollectiveOp::kAllGather:
        return whole() ? group_->all_gather_into_tensor(output(), input(), options_)
                       : group_->all_gather(outputs_, input(), options_);
      case CollectiveOp::kReduceScatter:
        return whole()
                   ? group_->reduce_scatter_tensor(output(), input(), request_->reduce, options_)
                   : group_->reduce_scatter(output(), inputs_, request_->reduce, options_);
      case CollectiveOp::kGather:
        return group_->gather(outputs_, input(), root, options_);
      case CollectiveOp::kScatter:
        return group_->scatter(output(), inputs_, root, options_);
      case CollectiveOp::kAllToAll:
        return whole() ? group_->all_to_all_single(output(),
                                                   input(),
                                                   request_->output_splits,
                                                   request_->input_splits,
                                                   options_)
                       : group_->all_to_all(outputs_, inputs_, options_);
      case CollectiveOp::kBarrier:
        return group_->barrier(options_);
      case CollectiveOp::kSend:
        return group_->send(input(), root, request_->tag, options_);
      case CollectiveOp::kRecv:
        return request_->has(PostFlag::kAnySource)
                   ? group_->recv_any_source(output(), request_->tag, options_)
                   : group_->recv(output(), root, request_->tag, options_);
    }
    throw ContractViolation("an operation that groups do not have");
  }

 private:
  std::vector<Memory> memories(const RankProcess& process,
                               const std::vector<ArenaSlice>& slices) const {
    std::vector<Memory> found;
    for (const ArenaSlice& slice : slices) {
      const Result<Memory> memory = process.memory(slice, request_->dtype);
      if (!memory.ok()) refuse(memory.error().message);
      found.push_back(memory.value());
    }
    return found;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const std::string site = options_.site.text();
    throw ContractViolation(
        fmt::format("{}{}{}: {}", site, site.empty() ? "" : ": ", name_of(request_->op), what));
  }

  bool whole() const { return request_->has(PostFlag::kTensor); }

  const Memory& input() const {
    if (inputs_.size() != 1) refuse(fmt::format("{} inputs where one belongs", inputs_.size()));
    return inputs_.front();
  }

  const Memory& output() const {
    if (outputs_.size() != 1) refuse(fmt::format("{} outputs where one belongs", outputs_.size()));
    return outputs_.front();
  }

  const Memory& in_place() const {
    if (request_->inputs != request_->outputs) refuse("its inputs and outputs are not the same");
    return input();
  }

  Work all_reduce() const {
    if (!request_->has(PostFlag::kCoalesced))
      return group_->all_reduce(in_place(), request_->reduce, options_);
    if (request_->inputs != request_->outputs) refuse("its inputs and outputs are not the same");
    return group_->all_reduce_coalesced(inputs_, request_->reduce, options_);
  }

  ProcessGroup* group_;
  const PostRequest* request_;
  OpOptions options_;
  std::vector<Memory> inputs_;
  std::vector<Memory> outputs_;
};

}  // namespace

Work post(ProcessGroup& group,
          const PostRequest& request,
          const RankProcess& process,
          bool expires) {
  return Call(group, request, process, expires).post();
}

}  // namespace lockstep::sim
