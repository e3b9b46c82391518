#include "lockstep/hooks/quantization_hooks.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

namespace {

constexpr float kLevels = 255.0F;

struct Affine {
  float scale = 1.0F;
  float zero_point = 0.0F;
};

Affine choose(std::span<const float> values) {
  float smallest = 0.0F;
  float largest = 0.0F;
  for (const float value : values) {
    LOCKSTEP_CHECK(std::isfinite(value),
                   fmt::format("quantization needs finite gradients, got {}", value));
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  const float scale =
      std::max((largest - smallest) / kLevels, std::numeric_limits<float>::epsilon());
  // An infinite scale (the range overflowed) leaves min / scale at 0.
  const float zero_point = std::clamp(0.0F - std::nearbyint(smallest / scale), 0.0F, kLevels);
  return {scale, zero_point};
}

/// The bucket as rows of `width`, and how many elements are real.
struct Rows {
  Tensor values;
  std::int64_t n_rows = 1;
  std::int64_t width = 0;
  std::int64_t n_elems = 0;
};

/// Scales in the first row, zero points in the second: what travels.
Tensor parameters_of(const Rows& rows) {
  Tensor parameters = Tensor::empty(rows.values.runtime(), {2, rows.n_rows}, DType::kF32);
  float* const p = parameters.write<float>();
  for (std::int64_t r = 0; r < rows.n_rows; ++r) {
    const Affine affine =
        choose(rows.values.slice(r * rows.width, {rows.width}).read_span<float>());
    p[r] = affine.scale;
    p[rows.n_rows + r] = affine.zero_point;
  }
  return parameters;
}

Tensor quantized(const Rows& rows, const Tensor& parameters) {
  Tensor bytes = Tensor::empty(rows.values.runtime(), {rows.n_rows * rows.width}, DType::kU8);
  const float* const p = parameters.read<float>();
  const float* x = rows.values.read<float>();
  std::uint8_t* q = bytes.write<std::uint8_t>();
  for (std::int64_t r = 0; r < rows.n_rows; ++r) {
    for (std::int64_t i = 0; i < rows.width; ++i) {
      const float level = std::nearbyint(*x++ / p[r]) + p[rows.n_rows + r];
      *q++ = static_cast<std::uint8_t>(std::clamp(level, 0.0F, kLevels));
    }
  }
  return bytes;
}

/// sum += scale * (q - zero_point), row by row.
void add_dequantized(const Tensor& sum, const Tensor& bytes, const Tensor& parameters) {
  const std::int64_t n_rows = parameters.size(1);
  const std::int64_t width = sum.n_elems() / n_rows;
  const float* const p = parameters.read<float>();
  const std::uint8_t* q = bytes.read<std::uint8_t>();
  float* s = sum.write<float>();
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      *s++ += p[r] * (static_cast<float>(*q++) - p[n_rows + r]);
    }
  }
}

/// One tensor a rank, gathered.
class Gathered {
 public:
  Gathered(ProcessGroup& group, Tensor mine, const OpOptions& options) : mine_(std::move(mine)) {
    std::vector<Memory> memories;
    for (std::int32_t r = 0; r < group.size(); ++r) {
      tensors_.push_back(Tensor::empty(mine_.runtime(), mine_.shape(), mine_.dtype()));
      memories.push_back(Memory::of(tensors_.back()));
    }
    work_ = group.all_gather(memories, Memory::of(mine_), options);
  }

  const std::vector<Tensor>& wait() {
    work_.wait_or_throw();
    return tensors_;
  }

 private:
  Tensor mine_;
  std::vector<Tensor> tensors_;
  Work work_;
};

class DequantizingBucket final : public PendingBucket {
 public:
  DequantizingBucket(std::vector<Tensor> parameters, Gathered bytes, std::int64_t n_elems)
      : parameters_(std::move(parameters)), bytes_(std::move(bytes)), n_elems_(n_elems) {}

  Tensor wait() override {
    const std::vector<Tensor>& bytes = bytes_.wait();
    const Tensor sum = Tensor::zeros(bytes[0].runtime(), bytes[0].shape(), DType::kF32);
    for (std::size_t r = 0; r < bytes.size(); ++r) add_dequantized(sum, bytes[r], parameters_[r]);
    detail::divide(sum, static_cast<std::int32_t>(bytes.size()));
    return sum.slice(0, {n_elems_});
  }

 private:
  std::vector<Tensor> parameters_;
  Gathered bytes_;
  std::int64_t n_elems_;
};

std::unique_ptr<PendingBucket> run_rows(const Rows& rows,
                                        ProcessGroup& group,
                                        const OpOptions& bucket_options) {
  const OpOptions options = detail::without_layout(bucket_options);
  Gathered parameters(group, parameters_of(rows), options);
  std::vector<Tensor> all_parameters = parameters.wait();
  const Tensor mine = all_parameters[static_cast<std::size_t>(group.rank())];
  return std::make_unique<DequantizingBucket>(
      std::move(all_parameters), Gathered(group, quantized(rows, mine), options), rows.n_elems);
}

void check_floats(const Tensor& buffer) {
  LOCKSTEP_CHECK(buffer.dtype() == DType::kF32,
                 fmt::format("quantization hooks take f32 gradients, not {}", buffer.text()));
}

}  // namespace

std::unique_ptr<PendingBucket> QuantizePerTensorHook::run(GradBucket& bucket) {
  const Tensor& buffer = bucket.buffer();
  check_floats(buffer);
  return run_rows({buffer, 1, buffer.n_elems(), buffer.n_elems()}, *group_, bucket.op_options());
}

QuantizePerChannelHook::QuantizePerChannelHook(ProcessGroup& group, std::int64_t channel)
    : group_(&group), channel_(channel) {
  LOCKSTEP_CHECK(channel > 0,
                 fmt::format("a channel of {} elements: it has at least one", channel));
}

std::unique_ptr<PendingBucket> QuantizePerChannelHook::run(GradBucket& bucket) {
  const Tensor& buffer = bucket.buffer();
  check_floats(buffer);
  const std::int64_t n = buffer.n_elems();
  const std::int64_t n_rows = n / channel_ + 1;
  const Tensor padded = Tensor::zeros(buffer.runtime(), {n_rows * channel_}, DType::kF32);
  buffer.runtime().kernels().copy(padded.slice(0, {n}), buffer);
  return run_rows({padded, n_rows, channel_, n}, *group_, bucket.op_options());
}

}  // namespace lockstep
