// Laws of the reducer over random models, caps and orders of readiness.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/reducer/bucket_plan.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::term;
using testing::TinyModel;

struct Case {
  std::int32_t n_ranks = 1;
  std::vector<std::size_t> sizes;  // Elements of each parameter.
  std::vector<DType> dtypes;
  std::vector<std::vector<std::int32_t>> orders;  // By rank: terms as they are made.
  double cap_mb = 0.0;
  bool as_view = false;
  bool find_unused = false;
};

std::vector<std::int32_t> any_order(std::size_t n) {
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = n; i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  return order;
}

Case any_case() {
  Case c;
  c.n_ranks = *rc::gen::element(1, 2, 4);  // Powers of two: the mean of small integers is exact.
  const auto n_params = *rc::gen::inRange<std::size_t>(1, 7);
  for (std::size_t i = 0; i < n_params; ++i) {
    c.sizes.push_back(*rc::gen::inRange<std::size_t>(0, 9));
    c.dtypes.push_back(*rc::gen::element(DType::kF32, DType::kF64));
  }
  for (std::int32_t r = 0; r < c.n_ranks; ++r) c.orders.push_back(any_order(n_params));
  c.cap_mb = *rc::gen::inRange(1, 60) / 1048576.0;
  c.as_view = *rc::gen::arbitrary<bool>();
  c.find_unused = *rc::gen::arbitrary<bool>();
  return c;
}

// A small integer that differs by parameter, element, rank and step.
double gradient(std::size_t param, std::size_t element, std::int32_t rank, int step) {
  return static_cast<double>((7 * param + 3 * element + 5 * static_cast<std::size_t>(rank) +
                              11 * static_cast<std::size_t>(step)) %
                             32);
}

double mean_gradient(const Case& c, std::size_t param, std::size_t element, int step) {
  double total = 0.0;
  for (std::int32_t r = 0; r < c.n_ranks; ++r) total += gradient(param, element, r, step);
  return total / c.n_ranks;
}

Variable loss_of(const Case& c, const TinyModel& model, std::int32_t rank, int step) {
  Variable total;
  for (const std::int32_t index : c.orders[static_cast<std::size_t>(rank)]) {
    const auto p = static_cast<std::size_t>(index);
    std::vector<double> values;
    for (std::size_t e = 0; e < c.sizes[p]; ++e) values.push_back(gradient(p, e, rank, step));
    const Variable part = term(model.parameters[p].variable, values);
    total = total.defined() ? add(total, part) : part;
  }
  return total;
}

struct Observed {
  bool means_hold = true;
  bool buckets_partition = true;
};

bool is_partition(const std::vector<std::vector<std::int32_t>>& buckets, std::size_t n) {
  std::vector<int> seen(n);
  for (const auto& bucket : buckets) {
    for (const std::int32_t i : bucket) ++seen[static_cast<std::size_t>(i)];
  }
  return std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; });
}

bool means_hold(const Case& c, const TinyModel& model, int step) {
  for (std::size_t p = 0; p < c.sizes.size(); ++p) {
    const std::vector<double> grad = grad_of(model.parameters[p].variable);
    for (std::size_t e = 0; e < c.sizes[p]; ++e) {
      if (grad[e] != mean_gradient(c, p, e, step)) return false;
    }
  }
  return true;
}

constexpr int kSteps = 3;

MiniResult train(const Case& c, Observed& observed) {
  return run_mini_world({.n_ranks = c.n_ranks}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    for (std::size_t p = 0; p < c.sizes.size(); ++p) {
      model.parameter("p" + std::to_string(p), std::vector<double>(c.sizes[p]), c.dtypes[p]);
    }
    Ddp ddp(model.state(),
            rank.group,
            {.bucket_cap_mb = c.cap_mb,
             .find_unused_parameters = c.find_unused,
             .gradient_as_bucket_view = c.as_view});
    for (int step = 0; step < kSteps; ++step) {
      forward_backward(ddp, [&] { return loss_of(c, model, rank.rank, step); });
      observed.buckets_partition &= is_partition(ddp.buckets(), c.sizes.size());
      observed.means_hold &= means_hold(c, model, step);
      for (const NamedVariable& parameter : model.parameters) parameter.variable.set_grad(Tensor());
    }
  });
}

// Elements reduced between two points: one launch per bucket, each parameter's elements once.
std::int64_t n_reduced(const MemoryTrace& trace, std::int32_t rank) {
  std::int64_t n = 0;
  for (const Event& event : trace.events(Rank{rank})) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    if (call != nullptr && call->phase == CollectivePhase::kPosted &&
        call->signature.op == CollectiveOp::kAllReduce && is_floating(call->signature.dtype)) {
      n += call->signature.count;
    }
  }
  return n;
}

RC_GTEST_PROP(ReducerProperty, GradientsAreTheExactMeanAndRanksMakeTheSameCalls, ()) {
  Case c = any_case();
  std::fill(c.dtypes.begin(), c.dtypes.end(), c.dtypes.front());  // Terms are added: one dtype.
  Observed observed;

  const MiniResult result = train(c, observed);

  RC_ASSERT(result.ok());
  RC_ASSERT(observed.means_hold);
  RC_ASSERT(observed.buckets_partition);
  const auto n_elems = std::accumulate(c.sizes.begin(), c.sizes.end(), std::size_t{0});
  for (std::int32_t r = 0; r < c.n_ranks; ++r) {
    RC_ASSERT(n_reduced(*result.trace, r) == kSteps * static_cast<std::int64_t>(n_elems));
    RC_ASSERT(collectives_of(*result.trace, r) == collectives_of(*result.trace, 0));
  }
}

// Launches 0, 1, ..., B-1: the layouts of the posted all-reduces repeat bucket after bucket.
RC_GTEST_PROP(ReducerProperty, EveryStepLaunchesTheBucketsInTheSameOrder, ()) {
  Case c = any_case();
  c.find_unused = true;  // No rebuild: all steps use one layout.
  std::fill(c.dtypes.begin(), c.dtypes.end(), c.dtypes.front());
  Observed observed;

  const MiniResult result = train(c, observed);

  RC_ASSERT(result.ok());
  std::vector<std::uint64_t> layouts;
  for (const Event& event : result.trace->events(Rank{0})) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    if (call != nullptr && call->phase == CollectivePhase::kPosted &&
        call->signature.op == CollectiveOp::kAllReduce && call->signature.layout != 0) {
      layouts.push_back(call->signature.layout);
    }
  }
  RC_ASSERT(layouts.size() % kSteps == 0U);
  const std::size_t n_buckets = layouts.size() / kSteps;
  for (std::size_t i = 0; i < layouts.size(); ++i) RC_ASSERT(layouts[i] == layouts[i % n_buckets]);
}

RC_GTEST_PROP(BucketPlanProperty, EveryTensorIsInOneBucketOfItsOwnDtype, ()) {
  std::vector<PlannedTensor> tensors;
  const auto n = *rc::gen::inRange<std::size_t>(0, 20);
  for (std::size_t i = 0; i < n; ++i) {
    tensors.push_back({*rc::gen::inRange<std::int64_t>(0, 50),
                       *rc::gen::element(DType::kF32, DType::kF64, DType::kF16),
                       Device::kCpu});
  }
  const std::vector<std::int64_t> limits = {*rc::gen::inRange<std::int64_t>(1, 100),
                                            *rc::gen::inRange<std::int64_t>(1, 400)};

  const BucketPlan plan = compute_bucket_assignment_by_size(tensors, limits);

  RC_ASSERT(is_partition(plan.buckets, n));
  RC_ASSERT(plan.limits_bytes.size() == plan.buckets.size());
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    std::int64_t bytes = 0;
    std::int64_t last_bytes = 0;
    for (const std::int32_t i : plan.buckets[b]) {
      const PlannedTensor& tensor = tensors[static_cast<std::size_t>(i)];
      RC_ASSERT(tensor.dtype == tensors[static_cast<std::size_t>(plan.buckets[b].front())].dtype);
      last_bytes = tensor.n_elems * size_of(tensor.dtype);
      bytes += last_bytes;
    }
    // Without its last tensor a bucket was below its limit, or it would have closed before.
    RC_ASSERT(bytes - last_bytes < plan.limits_bytes[b]);
  }
}

}  // namespace
}  // namespace lockstep
