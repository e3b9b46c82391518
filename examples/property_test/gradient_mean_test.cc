// What a user of the library writes: a property of data-parallel training, checked on virtual
// ranks. When it fails, RapidCheck shrinks the ranks and inputs, and prints what went wrong and the
// token that replays the run.
#include <cstdint>
#include <lockstep/lockstep.h>
#include <lockstep/rapidcheck.h>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using lockstep::Variable;

// y = w * x, whose gradient with respect to w is x: a model is any class with these members.
struct Slope {
  explicit Slope(lockstep::Runtime& runtime)
      : weight(lockstep::Tensor::full(runtime, {1}, lockstep::DType::kF32, 1.0), true) {}

  Variable forward(const Variable& x) const { return lockstep::mul(weight, x); }

  std::vector<lockstep::NamedVariable> named_parameters() const { return {{"weight", weight}}; }

  std::vector<lockstep::NamedVariable> named_buffers() const { return {}; }

  bool is_training() const { return true; }

  Variable weight;
};

RC_GTEST_PROP(GradientMeanProperty, EveryRankEndsWithTheMeanOfAllInputs, (std::uint64_t seed)) {
  const std::int32_t n_ranks = 1 << *rc::gen::inRange(0, 6);  // Powers of two divide exactly.
  const auto inputs = *rc::gen::container<std::vector<int>>(n_ranks, rc::gen::inRange(-99, 100));

  const auto run = lockstep::run_ranks(
      {.ranks = n_ranks, .schedule_seed = seed, .strategy = "random"},
      [&inputs](lockstep::RankContext& context) {
        Slope model(context.runtime());
        lockstep::DistributedDataParallel ddp(model, context.world());
        const double input = inputs.at(static_cast<std::size_t>(context.rank()));
        const auto x = lockstep::Tensor::full(context.runtime(), {1}, lockstep::DType::kF32, input);
        lockstep::sum(ddp(Variable(x))).backward();
        return model.weight.grad().item();
      });

  RC_ASSERT_LAWS_HOLD(run);
  const double mean = std::accumulate(inputs.begin(), inputs.end(), 0.0) / n_ranks;
  for (const auto& gradient : run.results) RC_ASSERT(gradient == mean);
}

}  // namespace
