#include "tests/programs/training.h"

#include <stdexcept>

namespace lockstep::programs {

namespace {

constexpr std::int64_t kColumns = 4;

double fraction(std::int64_t i) { return static_cast<double>(i % 13) / 8.0 - 0.75; }

}  // namespace

Tensor numbers(RankContext& rank, std::int64_t step, std::int64_t rows, std::int64_t columns) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(fraction(7 * i + 3 * step + 5 * rank.rank()));
  }
  return Tensor::of(rank.runtime(), {rows, columns}, DType::kF32, values);
}

Batch batch_of(RankContext& rank, std::int64_t step, std::int64_t rows) {
  return {Variable(numbers(rank, step, rows, kColumns)), numbers(rank, step + 1, rows, 1)};
}

Batch rows_of(RankContext& rank, const std::vector<std::int64_t>& samples) {
  std::vector<double> x;
  std::vector<double> y;
  for (const std::int64_t sample : samples) {
    for (std::int64_t i = 0; i < kColumns; ++i) x.push_back(fraction(11 * sample + 3 * i));
    y.push_back(fraction(5 * sample));
  }
  const auto n = static_cast<std::int64_t>(samples.size());
  return {Variable(Tensor::of(rank.runtime(), {n, kColumns}, DType::kF32, x)),
          Tensor::of(rank.runtime(), {n, 1}, DType::kF32, y)};
}

Mlp::Mlp(Runtime& runtime, Generator& init)
    : Module(runtime), first_(runtime, kColumns, 4, init), last_(runtime, 4, 1, init) {
  register_module("first", first_);
  register_module("last", last_);
}

Variable Mlp::forward(const Variable& x) { return last_(relu(first_(x))); }

NormedMlp::NormedMlp(Runtime& runtime, Generator& init)
    : Module(runtime),
      first_(runtime, kColumns, 4, init),
      norm_(runtime, 4),
      last_(runtime, 4, 1, init) {
  register_module("first", first_);
  register_module("norm", norm_);
  register_module("last", last_);
}

Variable NormedMlp::forward(const Variable& x) { return last_(norm_(first_(x))); }

void average_gradients(RankContext& rank, std::span<const Variable> parameters) {
  for (const Variable& parameter : parameters) {
    if (!parameter.has_grad()) continue;
    rank.world().all_reduce(Memory::of(parameter.grad()), ReduceOp::kAvg).wait_or_throw();
  }
}

Tensor output_of(nn::Module& model, const Variable& x) {
  const NoGradGuard no_grad(model.runtime());
  return model(x).data();
}

double summed(ProcessGroup& group, double value) {
  group.all_reduce(Memory::of(std::span<double>(&value, 1))).wait_or_throw();
  return value;
}

double largest(ProcessGroup& group, double value) {
  group.all_reduce(Memory::of(std::span<double>(&value, 1)), ReduceOp::kMax).wait_or_throw();
  return value;
}

void save_file(RankContext& rank, const std::string& path, const std::string& bytes) {
  FileSystem& files = rank.host().files();
  if (!files.make_folder(std::string(folder_of(path))).ok() || !files.publish(path, bytes).ok()) {
    throw std::runtime_error("cannot write " + path);
  }
}

}  // namespace lockstep::programs
