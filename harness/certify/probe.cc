#include "lockstep/harness/certify/probe.h"

#include <algorithm>

#include "lockstep/base/check.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

/// x times the weight, minus the same without gradient: zero, with x as its derivative.
class ProbeModel final : public nn::Module {
 public:
  ProbeModel(Runtime& runtime, std::int64_t n_columns)
      : Module(runtime),
        weight_(register_parameter("weight", Tensor::zeros(runtime, {1, n_columns}, DType::kF64))) {
  }

  Variable forward(const Variable& x) override {
    const Variable constant(weight_.data());
    return sub(linear(x, weight_, Variable()), linear(x, constant, Variable()));
  }

 private:
  Variable weight_;
};

}  // namespace

Probe::Probe(RankContext& rank, std::int64_t first, std::int64_t n_columns)
    : rank_(&rank),
      first_(first),
      n_columns_(n_columns),
      model_(std::make_unique<ProbeModel>(rank.runtime(), n_columns)) {}

ProbeBatch Probe::samples(std::int64_t n_samples) {
  LOCKSTEP_CHECK(n_samples >= 1, "a micro-batch must have at least one sample");
  return sequences(std::vector<std::int64_t>(static_cast<std::size_t>(n_samples), 1));
}

ProbeBatch Probe::sequences(std::initializer_list<std::int64_t> tokens) {
  return sequences(std::span<const std::int64_t>(tokens.begin(), tokens.size()));
}

ProbeBatch Probe::sequences(std::span<const std::int64_t> tokens) {
  ProbeBatch batch;
  std::vector<std::int64_t> ids;
  std::vector<double> x;
  for (const std::int64_t n : tokens) {
    LOCKSTEP_CHECK(n >= 0, "a sample's number of tokens must not be negative");
    const auto id = static_cast<std::int64_t>(tokens_.size());
    const std::int64_t column = first_ < 0 ? 0 : first_ + id;
    LOCKSTEP_CHECK(
        column < n_columns_,
        "the loop consumed more samples than in the first run: it must be deterministic");
    for (std::int64_t t = 0; t < n; ++t) {
      const std::size_t row = x.size();
      x.resize(row + static_cast<std::size_t>(n_columns_));
      x[row + static_cast<std::size_t>(column)] = 1.0;
    }
    tokens_.push_back(n);
    ids.push_back(id);
    batch.n_tokens += n;
  }
  LOCKSTEP_CHECK(batch.n_tokens > 0, "a micro-batch must have at least one token");
  batch.n_samples = static_cast<std::int64_t>(ids.size());
  Runtime& runtime = rank_->runtime();
  batch.x = Variable(Tensor::of(runtime, {batch.n_tokens, n_columns_}, DType::kF64, x));
  // d/dz (z + 1/2)^2 = d/dz |z + 1/2| = 1 at z = 0.
  batch.y = Tensor::full(runtime, {batch.n_tokens, 1}, DType::kF64, -0.5);
  rank_->annotate().samples(ids);
  return batch;
}

}  // namespace lockstep
