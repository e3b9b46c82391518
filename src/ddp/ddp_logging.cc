#include "lockstep/ddp/ddp_logging.h"

#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/reducer/reducer.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFirstSamples = 10;
constexpr std::int64_t kSamplePeriod = 100;

std::int64_t bytes_of(const NamedVariable& parameter) {
  const Tensor& data = parameter.variable.data();
  return data.n_elems() * size_of(data.dtype());
}

std::string joined(std::span<const std::int64_t> values) {
  std::vector<std::string> words;
  for (const std::int64_t value : values) words.push_back(std::to_string(value));
  return join(words);
}

std::vector<std::int64_t> bucket_bytes(const Reducer& reducer) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(reducer.buckets().size());
  for (const std::vector<std::int32_t>& bucket : reducer.buckets()) {
    std::int64_t n_bytes = 0;
    for (const std::int32_t member : bucket) {
      n_bytes += bytes_of(reducer.parameters()[static_cast<std::size_t>(member)]);
    }
    sizes.push_back(n_bytes);
  }
  return sizes;
}

// As PyTorch's C++ names its types.
std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kF16:
      return "c10::Half";
    case DType::kBF16:
      return "c10::BFloat16";
    default:
      return name_of(dtype);
  }
}

void add_parameters(DdpLoggingData& data, const Reducer& reducer) {
  std::int64_t n_bytes = 0;
  std::set<std::string> dtypes;
  for (const NamedVariable& parameter : reducer.parameters()) {
    n_bytes += bytes_of(parameter);
    dtypes.emplace(type_name(parameter.variable.data().dtype()));
  }
  data.numbers["num_parameter_tensors"] = static_cast<std::int64_t>(reducer.parameters().size());
  data.numbers["total_parameter_size_bytes"] = n_bytes;
  data.texts["dtypes"] = join(std::vector<std::string>(dtypes.begin(), dtypes.end()));
}

void add_options(DdpLoggingData& data, const DdpOptions& options, bool static_graph) {
  data.numbers["broadcast_buffers"] = options.broadcast_buffers ? 1 : 0;
  data.numbers["find_unused_parameters"] = options.find_unused_parameters ? 1 : 0;
  data.numbers["gradient_as_bucket_view"] = options.gradient_as_bucket_view ? 1 : 0;
  if (static_graph) data.numbers["static_graph"] = 1;
  data.numbers["is_multi_device_module"] = 0;
  data.numbers["has_sync_bn"] = 0;
  data.numbers["output_device"] = options.output_device.value_or(-1);
  data.texts["device_ids"] = join(options.device_ids);
  data.texts["module_name"] = options.module_name;
}

void add_environment(DdpLoggingData& data, ProcessGroup& group) {
  constexpr std::pair<const char*, const char*> kEchoes[] = {
      {"master_addr", "MASTER_ADDR"},
      {"master_port", "MASTER_PORT"},
      {"cuda_visible_devices", "CUDA_VISIBLE_DEVICES"},
      {"torch_distributed_debug", "TORCH_DISTRIBUTED_DEBUG"}};
  for (const auto& [field, name] : kEchoes) {
    data.texts[field] = group.runtime().host().environment(name).value_or("N/A");
  }
}

}  // namespace

DdpLogger::DdpLogger(const Reducer& reducer, bool is_compat_113)
    : first_bucket_bytes_(bucket_bytes(reducer)), is_compat_113_(is_compat_113) {}

void DdpLogger::on_forward(const Reducer& reducer) {
  const std::int64_t n = reducer.n_iterations();
  if (n == 0 || (n > kFirstSamples && n % kSamplePeriod != 0)) return;
  sampled_ = true;
  iteration_ = n;
  rebuilt_ = reducer.has_rebuilt_buckets();
  const std::span<const std::int32_t> order = reducer.last_ready_order();
  ready_order_.assign(order.begin(), order.end());
  // 1.13 adds to what the sample before found, unless nothing is unused.
  const std::int64_t unused_bytes = reducer.unused_bytes();
  const bool is_sum = is_compat_113_ && unused_bytes > 0;
  if (!is_compat_113_ || unused_bytes > 0 || reducer.is_searching()) tells_unused_ = true;
  unused_bytes_ = is_sum ? unused_bytes_ + unused_bytes : unused_bytes;
}

void DdpLogger::add_samples(DdpLoggingData& data, const Reducer& reducer) const {
  data.numbers["iteration"] = iteration_;
  if (!sampled_) return;
  data.numbers["has_rebuilt_buckets"] = rebuilt_ ? 1 : 0;
  if (tells_unused_) data.numbers["unused_parameter_size"] = unused_bytes_;
  if (!ready_order_.empty()) {
    data.texts["prev_iteration_grad_ready_order_indices"] = join(ready_order_);
  }
  if (!rebuilt_) return;
  data.texts["rebuilt_bucket_sizes"] = joined(bucket_bytes(reducer));
  std::vector<std::string> indices;
  for (const std::vector<std::int32_t>& bucket : reducer.buckets()) {
    indices.push_back(join(bucket, " "));
  }
  data.texts["rebuilt_per_bucket_param_indices"] = join(indices);
}

DdpLoggingData DdpLogger::data(const Reducer& reducer,
                               const DdpOptions& options,
                               ProcessGroup& group,
                               std::int64_t cap_bytes) const {
  DdpLoggingData data;
  data.numbers["rank"] = group.rank();
  data.numbers["world_size"] = group.size();
  data.numbers["bucket_cap_bytes"] = cap_bytes;
  data.texts["bucket_sizes"] = joined(first_bucket_bytes_);
  data.texts["backend_name"] = std::string(group.backend());
  add_parameters(data, reducer);
  add_options(data, options, reducer.static_graph());
  add_environment(data, group);
  add_samples(data, reducer);
  return data;
}

}  // namespace lockstep
