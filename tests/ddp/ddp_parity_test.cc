// Properties that PyTorch's own distributed tests check and no other test here did; each names the
// test that it follows (docs/conformance.md).
#include <gtest/gtest.h>

#include "lockstep/autograd/node.h"
#include "lockstep/collectives/join.h"
#include "lockstep/tensor/kernels.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::data_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;
using Counts = std::vector<std::int32_t>;
using Values = std::vector<double>;

// test_DistributedDataParallel_non_default_stream: the input is the rank, a thousand times.
TEST(DdpParityTest, EachOfAThousandStepsGivesTheMeanOfTheRanks) {
  const MiniResult result = run_mini_world({.n_ranks = 4, .recorded = false}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    for (int step = 0; step < 1000; ++step) {
      w.set_grad(Tensor());
      forward_backward(ddp, [&] { return flat_term(w, rank.rank); });
      ASSERT_EQ(grad_of(w), (Values{1.5})) << step;
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

class WidenNode final : public Node {
 public:
  void run(Tensor&& grad) override { send(0, grad.to(DType::kF16)); }
};

// A half parameter as a float, for operations that take no halves.
Variable widened(const Variable& x) {
  const Ref<Node> node = Node::make<WidenNode>(x.runtime());
  node->connect(0, x);
  return Node::attach(x.data().to(DType::kF32), node);
}

// test_fp16, test_fp16_grad_is_view: twice 2^15 has no place in a half, its mean has.
TEST(DdpParityTest, HalvesAreScaledBeforeTheSum) {
  for (const bool as_view : {false, true}) {
    const MiniResult result = run_mini_world({}, [as_view](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable w = model.parameter("w", Values{1}, DType::kF16);
      Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
      for (int step = 0; step < 2; ++step) {
        w.set_grad(Tensor());
        forward_backward(ddp, [&] { return flat_term(widened(w), 32768); });
        EXPECT_EQ(grad_of(w), (Values{32768}));
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

// test_ddp_weight_sharing: 2 * sum(r + 1) / N, no matter which owns the gradient's memory.
TEST(DdpParityTest, AWeightUsedTwiceGetsTheMeanOfBothUses) {
  for (const bool as_view : {false, true}) {
    for (const bool forgets : {false, true}) {
      const MiniResult result = run_mini_world({.n_ranks = 4}, [=](MiniRank& rank) {
        TinyModel model(rank.runtime);
        const Variable w = model.parameter("w", {0, 0});
        Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
        for (int step = 0; step < 3; ++step) {
          if (forgets) w.set_grad(Tensor());
          if (w.grad().defined()) rank.runtime.kernels().fill(w.grad(), 0.0);
          const double input = rank.rank + 1.0;
          forward_backward(ddp, [&] { return total({flat_term(w, input), flat_term(w, input)}); });
          EXPECT_EQ(grad_of(w), (Values{5, 5}));
        }
      });
      ASSERT_TRUE(result.ok()) << result.error(0);
    }
  }
}

// test_ddp_control_flow_same_across_ranks and _different_across_ranks.
TEST(DdpParityTest, TheUsedMapFollowsTheControlFlow) {
  for (const bool alike : {true, false}) {
    const MiniResult result = run_mini_world({.n_ranks = 3}, [alike](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {0});
      const Variable b = model.parameter("b", {0});
      Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
      for (int step = 0; step < 6; ++step) {
        const bool uses_b = step % 2 == 1 && (alike || rank.rank == 1);
        forward_backward(ddp, [&] {
          return uses_b ? total({flat_term(a, 3), flat_term(b, 3)}) : flat_term(a, 3);
        });
        const std::int32_t n_uses = step % 2 == 0 ? 0 : alike ? 3 : 1;
        EXPECT_EQ(ddp.used_map(), (Counts{3, n_uses}));
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

// test_ddp_grad_div_uneven_inputs: two ranks have three inputs, the others five.
TEST(DdpParityTest, ConstantGradientsShrinkWithTheRanksThatAreLeft) {
  for (const bool by_initial : {true, false}) {
    const MiniResult result = run_mini_world({.n_ranks = 4}, [by_initial](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable w = model.parameter("w", {0});
      Ddp ddp(model.state(), rank.group, {});
      Join join({&ddp}, {.divide_by_initial_world_size = by_initial});
      join.run([&] {
        for (int step = 0; step < (rank.rank < 2 ? 3 : 5); ++step) {
          w.set_grad(Tensor());
          forward_backward(ddp, [&] { return flat_term(w, 50); });
          EXPECT_EQ(grad_of(w)[0], by_initial && step >= 3 ? 25.0 : 50.0);
        }
      });
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

// test_ddp_join_model_equivalence: rank r has 2 (r + 1) inputs; the rate is N times one process's.
TEST(DdpParityTest, UnevenInputsEndWhereOneProcessWithAllOfThemDoes) {
  constexpr int kRanks = 4;
  constexpr double kRate = 0.125;
  const MiniResult result = run_mini_world({.n_ranks = kRanks}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {1});
    Ddp ddp(model.state(), rank.group, {});
    Join join({&ddp});
    join.run([&] {
      for (int step = 0; step < 2 * (rank.rank + 1); ++step) {
        w.set_grad(Tensor());
        forward_backward(ddp, [&] { return flat_term(w, 1); });
        rank.runtime.kernels().add_scaled(w.data(), w.data(), w.grad(), -kRate * kRanks);
      }
    });
    const int n_inputs = 2 + 4 + 6 + 8;
    EXPECT_EQ(data_of(w), (Values{1.0 - kRate * n_inputs}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// test_ddp_returns_tensor_with_no_grad, test_ddp_new_tensor_in_fwd and _static_graph.
TEST(DdpParityTest, AnOutputWithoutAGraphStaysWithoutOne) {
  for (const bool is_static : {false, true}) {
    const MiniResult result = run_mini_world({}, [is_static](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable w = model.parameter("w", {0});
      Ddp ddp(model.state(),
              rank.group,
              {.find_unused_parameters = !is_static, .static_graph = is_static});
      for (int step = 0; step < 6; ++step) {
        w.set_grad(Tensor());
        ddp.before_forward(true);
        Variable out = flat_term(w, rank.rank + 1.0);
        Variable made = Variable(Tensor::full(rank.runtime, {2}, DType::kF32, 7));
        Variable* const outputs[] = {&out, &made};
        ddp.after_forward(outputs);
        EXPECT_FALSE(made.requires_grad());
        out.backward();
        EXPECT_EQ(grad_of(w), (Values{1.5}));
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

}  // namespace
}  // namespace lockstep
