#include "lockstep/reducer/reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/text.h"
#include "lockstep/reducer/bucket_agreement.h"
#include "lockstep/reducer/bucket_plan.h"
#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

namespace {

/// TORCH_DISTRIBUTED_DEBUG, as PyTorch spells it.
enum class DebugLevel : std::uint8_t { kOff, kInfo, kDetail };

}  // namespace

template <>
inline constexpr EnumNames<3> kEnumNames<DebugLevel> = {"OFF", "INFO", "DETAIL"};

namespace {

PlannedTensor planned(const NamedVariable& parameter) {
  const Tensor& data = parameter.variable.data();
  return {data.n_elems(), data.dtype(), data.device(), parameter.variable.state().expects_sparse};
}

// Before the rebuild the parameters registered last are assumed to be ready first.
std::vector<std::vector<std::int32_t>> initial_assignment(
    std::span<const NamedVariable> parameters,
    std::span<const std::int64_t> limits_bytes,
    Pool& pool) {
  std::pmr::vector<PlannedTensor> tensors(&pool);
  tensors.reserve(parameters.size());
  for (const NamedVariable& parameter : parameters) tensors.push_back(planned(parameter));
  BucketPlan plan = compute_bucket_assignment_by_size(tensors, limits_bytes);
  std::reverse(plan.buckets.begin(), plan.buckets.end());
  return std::move(plan.buckets);
}

std::vector<Variable> leaves_of(std::span<const NamedVariable> parameters) {
  std::vector<Variable> leaves;
  leaves.reserve(parameters.size());
  for (const NamedVariable& parameter : parameters) leaves.push_back(parameter.variable);
  return leaves;
}

}  // namespace

Reducer::Reducer(std::vector<NamedVariable> parameters,
                 ProcessGroup& group,
                 ReducerOptions options,
                 GradientTrace* trace)
    : parameters_(std::move(parameters)),
      group_(&group),
      runtime_(&group.runtime()),
      options_(std::move(options)),
      trace_(trace),
      use_(leaves_of(parameters_), options_.find_unused_parameters, options_.is_compat_113),
      buckets_(parameters_, group, options_),
      divisor_(static_cast<double>(group.size())),
      backward_{.ready = std::pmr::vector<std::uint8_t>(parameters_.size(), &runtime_->pool())},
      order_{.until_rebuild = std::pmr::vector<std::int32_t>(&runtime_->pool()),
             .last = std::pmr::vector<std::int32_t>(&runtime_->pool())} {
  if (parameters_.empty()) throw ReducerError("Expected at least one parameter.");
  if (!options_.find_unused_parameters) order_.until_rebuild.reserve(parameters_.size());
  order_.last.reserve(parameters_.size());
  assign_buckets(initial_assignment(parameters_, options_.initial_limits_bytes, runtime_->pool()));
  rearm_hooks();
}

void Reducer::rearm_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].variable.add_hook(*this, i);
}

Reducer::~Reducer() {
  // An exception that passes may leave its memory to transfers.
  if (buckets_.is_under_way() || use_.is_under_way()) group_->abandon(options_.wrapper);
  for (const NamedVariable& parameter : parameters_) parameter.variable.remove_hook(*this);
}

void Reducer::assign_buckets(std::vector<std::vector<std::int32_t>> assignment) {
  buckets_.assign(std::move(assignment));
  if (trace_ != nullptr) trace_->record_buckets(buckets_.members());
}

bool Reducer::is_debugging() const {
  const std::optional<std::string> said = runtime_->host().environment("TORCH_DISTRIBUTED_DEBUG");
  const std::optional<DebugLevel> level = parse_enum<DebugLevel>(said.value_or(""));
  return level == DebugLevel::kInfo || level == DebugLevel::kDetail;
}

std::string Reducer::debug_name(std::size_t index) const {
  const NamedVariable& parameter = parameters_[index];
  return options_.debug_name ? options_.debug_name(parameter) : parameter.name;
}

// ---- between backward passes

void Reducer::ensure_prior_reduction_finished() const {
  if (!backward_.requires_finalize) return;
  std::vector<std::int32_t> missing;
  std::vector<std::string> names;
  const bool named = is_debugging();
  for (std::size_t i = 0; i < backward_.ready.size(); ++i) {
    if (backward_.ready[i] != 0) continue;
    missing.push_back(static_cast<std::int32_t>(i));
    if (named) names.push_back(debug_name(i));
  }
  throw ReducerError(
      unfinished_reduction_text({.rank = group_->rank(),
                                 .find_unused_parameters = options_.find_unused_parameters,
                                 .static_graph = use_.is_static(),
                                 .missing = missing,
                                 .missing_names = names}));
}

bool Reducer::rebuild_buckets() {
  ensure_prior_reduction_finished();
  if (!should_rebuild() || order_.until_rebuild.empty()) return false;
  if (order_.until_rebuild.size() != parameters_.size()) {
    throw ReducerError(
        "rebuilt parameter indices size is not same as original model parameters size."
        "Original model param size is: " +
        std::to_string(parameters_.size()) +
        " versus rebuilt params size of: " + std::to_string(order_.until_rebuild.size()));
  }
  const bool small_last =
      parse_int(runtime_->host().environment("DDP_SET_LAST_BUCKET_CAP").value_or("")) == 1;
  if (small_last) std::reverse(order_.until_rebuild.begin(), order_.until_rebuild.end());
  std::pmr::vector<PlannedTensor> tensors(&runtime_->pool());
  tensors.reserve(parameters_.size());
  for (const std::int32_t index : order_.until_rebuild) {
    tensors.push_back(planned(parameters_[static_cast<std::size_t>(index)]));
  }
  BucketPlan plan = compute_bucket_assignment_by_size(
      tensors, options_.rebuilt_limits_bytes, order_.until_rebuild);
  if (small_last) std::reverse(plan.buckets.begin(), plan.buckets.end());
  agree_on_buckets(
      *group_, plan.buckets, parameters_.size(), buckets_.op_options("ddp.rebuild", 0));
  order_.rebuilt = true;
  order_.until_rebuild.clear();
  assign_buckets(std::move(plan.buckets));
  return true;
}

void Reducer::register_comm_hook(CommHook& hook) {
  if (buckets_.has_hook()) {
    throw ReducerError("register_comm_hook or register_builtin_comm_hook can only be called once.");
  }
  for (const NamedVariable& parameter : parameters_) {
    if (!parameter.variable.state().expects_sparse) continue;
    throw ReducerError("communication hooks take flat buckets, and parameter '" + parameter.name +
                       "' receives sparse gradients.");
  }
  buckets_.set_hook(hook);
}

void Reducer::set_static_graph() {
  if (n_iterations_ > 0) {
    throw ReducerError(
        "set_static_graph() should be called before training loop starts and after "
        "DistributedDataParallel is constructed.");
  }
  use_.set_static_graph();
  order_.until_rebuild.reserve(parameters_.size());
}

void Reducer::prepare_for_backward(std::span<const Variable> outputs) {
  backward_.expects_hooks = true;
  order_.last.clear();
  backward_.unused_marked = false;
  buckets_.begin();
  std::fill(backward_.ready.begin(), backward_.ready.end(), std::uint8_t{0});
  use_.begin(outputs);
}

void Reducer::shadow_backward() {
  buckets_.shadow();
  if (options_.find_unused_parameters) {
    use_.shadow(*group_, buckets_.op_options("ddp.backward", 0));
  }
}

void Reducer::push_all_rebuilt_parameters() {
  if (!should_rebuild() || !order_.until_rebuild.empty()) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    order_.until_rebuild.push_back(static_cast<std::int32_t>(i));
  }
}

}  // namespace lockstep
