#include "lockstep/parallel/zero.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/detail/not_recorded.h"

namespace lockstep {

namespace {

using optim::GroupOptions;
using optim::ParamGroup;

std::string torch_type_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "torch.DoubleTensor";
    case DType::kF16:
      return "torch.HalfTensor";
    case DType::kBF16:
      return "torch.BFloat16Tensor";
    default:
      return "torch.FloatTensor";
  }
}

std::vector<Variable> all_of(const std::vector<ParamGroup>& groups) {
  std::vector<Variable> parameters;
  for (const ParamGroup& group : groups) {
    parameters.insert(parameters.end(), group.parameters.begin(), group.parameters.end());
  }
  return parameters;
}

const std::vector<ParamGroup>& checked(const std::vector<ParamGroup>& groups) {
  const std::vector<Variable> parameters = all_of(groups);
  if (parameters.empty()) {
    throw std::invalid_argument("ZeroRedundancyOptimizer got an empty parameter list");
  }
  const DType first = parameters.front().data().dtype();
  for (const Variable& parameter : parameters) {
    const DType other = parameter.data().dtype();
    if (other == first) continue;
    throw std::invalid_argument(
        "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but "
        "got both " +
        torch_type_name(first) + " and " + torch_type_name(other));
  }
  return groups;
}

std::unique_ptr<optim::Optimizer> made(const ZeroRedundancyOptimizer::Make& make,
                                       std::vector<ParamGroup> groups) {
  std::unique_ptr<optim::Optimizer> optimizer = make(std::move(groups));
  if (optimizer != nullptr) return optimizer;
  throw std::invalid_argument("ZeroRedundancyOptimizer: `make` returned no optimizer");
}

/// What a group gets that leaves everything out.
GroupOptions defaults_of(const std::vector<ParamGroup>& groups,
                         const ZeroRedundancyOptimizer::Make& make) {
  ParamGroup plain;
  plain.parameters = all_of(checked(groups));
  std::vector<ParamGroup> one;
  one.push_back(std::move(plain));
  return made(make, std::move(one))->groups().front();
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(const std::vector<ParamGroup>& groups,
                                                 Make make,
                                                 ProcessGroup& group,
                                                 ZeroOptions options)
    : Optimizer(checked(groups), defaults_of(groups, make)),
      make_(std::move(make)),
      group_(&group),
      options_(options) {
  divide();
  if (!share_of(group_->rank()).empty()) local_ = made(make_, share_of_groups());
  build_buckets();
}

OpOptions ZeroRedundancyOptimizer::op_options(const char* scope) const {
  OpOptions options;
  options.site = runtime().call_site_or(options_.site);
  options.site.scope = scope;
  return options;
}

void ZeroRedundancyOptimizer::divide() {
  std::vector<std::vector<std::int64_t>> sizes;
  for (const optim::Group& group : groups()) {
    sizes.emplace_back();
    for (std::size_t i = group.first; i < group.end; ++i) {
      sizes.back().push_back(parameters()[i].data().n_elems());
    }
  }
  partition_ = partition_parameters(sizes, group_->size());
}

std::vector<std::size_t> ZeroRedundancyOptimizer::share_of(std::int32_t rank) const {
  std::vector<std::size_t> share;
  for (const std::vector<std::size_t>& group : partition_[static_cast<std::size_t>(rank)]) {
    share.insert(share.end(), group.begin(), group.end());
  }
  return share;
}

std::vector<ParamGroup> ZeroRedundancyOptimizer::share_of_groups() const {
  std::vector<ParamGroup> shares;
  const auto& own = partition_[static_cast<std::size_t>(group_->rank())];
  for (std::size_t g = 0; g < own.size(); ++g) {
    const optim::Group& group = groups()[g];
    ParamGroup share;
    share.lr = group.lr;
    share.weight_decay = group.weight_decay;
    share.momentum = group.momentum;
    for (const std::size_t i : own[g]) share.parameters.push_back(parameters()[i]);
    shares.push_back(std::move(share));
  }
  return shares;
}

void ZeroRedundancyOptimizer::add_param_group(ParamGroup group) {
  std::vector<ParamGroup> with_old = one_group({parameters().begin(), parameters().end()});
  with_old.push_back(group);
  static_cast<void>(checked(with_old));
  Optimizer::add_param_group(std::move(group));
  divide();
  if (local_) {
    local_->add_param_group(share_of_groups().back());
  } else if (!share_of(group_->rank()).empty()) {
    local_ = made(make_, share_of_groups());
  }
  build_buckets();
}

// Parameters that begin or cease to need a gradient move into or out of their buckets.
void ZeroRedundancyOptimizer::rebuild_if_thawed() {
  bool changed = false;
  for (std::size_t i = 0; i < trainable_.size(); ++i) {
    changed = changed || parameters()[i].requires_grad() != trainable_[i];
  }
  if (!changed) return;
  runtime().host().log(
      "ZeroRedundancyOptimizer detected that the trainable parameters changed; rebuilding the "
      "parameter buckets if enabled");
  build_buckets();
}

void ZeroRedundancyOptimizer::build_buckets() {
  trainable_.clear();
  for (const Variable& parameter : parameters()) trainable_.push_back(parameter.requires_grad());
  if (!options_.parameters_as_bucket_view) return;
  buckets_.clear();
  for (std::int32_t rank = 0; rank < group_->size(); ++rank) {
    std::int64_t n_elems = 0;
    for (const std::size_t i : share_of(rank)) {
      if (trainable_[i]) n_elems += parameters()[i].data().n_elems();
    }
    const DType dtype = parameters().front().data().dtype();
    Tensor bucket = n_elems == 0 ? Tensor::zeros(runtime(), {1}, DType::kF32)
                                 : Tensor::empty(runtime(), {n_elems}, dtype);
    std::int64_t offset = 0;
    for (const std::size_t i : share_of(rank)) {
      Tensor& data = parameters()[i].state().data;
      if (!trainable_[i]) {
        data = data.clone();  // It may have been part of an earlier bucket.
        continue;
      }
      const Tensor view = bucket.slice(offset, data.shape());
      runtime().kernels().copy(view, data);
      offset += data.n_elems();
      data = view;
    }
    buckets_.push_back(std::move(bucket));
  }
}

void ZeroRedundancyOptimizer::update_all() {
  static_cast<void>(notify_join_context(op_options("zero.join")));
  rebuild_if_thawed();
  if (local_) step_share();
  broadcast_shares();
}

void ZeroRedundancyOptimizer::step_share() {
  for (std::size_t g = 0; g < groups().size(); ++g) {
    static_cast<GroupOptions&>(local_->groups()[g]) = groups()[g];
  }
  if (rounding()) local_->round_each_step(*rounding());
  const NotRecorded guard(runtime());  // The shares are recorded as one optimizer.
  local_->step({});
}

void ZeroRedundancyOptimizer::broadcast_shares() {
  const OpOptions options = op_options("zero.step");
  std::vector<Work> works;
  for (std::int32_t rank = 0; rank < group_->size(); ++rank) {
    if (options_.parameters_as_bucket_view) {
      const Tensor& bucket = buckets_[static_cast<std::size_t>(rank)];
      works.push_back(group_->broadcast(Memory::of(bucket), rank, options));
      continue;
    }
    for (const std::size_t i : share_of(rank)) {
      works.push_back(group_->broadcast(Memory::of(parameters()[i].data()), rank, options));
    }
  }
  for (const Work& work : works) work.wait_or_throw();
  for (const Variable& parameter : parameters()) parameter.data().storage()->bump_version();
}

std::unique_ptr<JoinHook> ZeroRedundancyOptimizer::join_hook(const JoinOptions& /*options*/) {
  class Hook final : public JoinHook {
   public:
    explicit Hook(ZeroRedundancyOptimizer& optimizer) : optimizer_(&optimizer) {}

    void main_hook() override { optimizer_->step({}); }

   private:
    ZeroRedundancyOptimizer* optimizer_;
  };

  return std::make_unique<Hook>(*this);
}

}  // namespace lockstep
