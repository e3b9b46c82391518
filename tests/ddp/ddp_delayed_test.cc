// Delayed all-reduce: gradients that are averaged after the gradient of a named parameter. The
// expected values are those of PyTorch 2.15 on two gloo processes.
#include <functional>

#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::data_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

// net.a (2 elements) is the first parameter, so its gradient is the last.
struct DelayedModel : TinyModel {
  explicit DelayedModel(MiniRank& rank) : TinyModel(rank.runtime), number(rank.rank) {
    const double start = number + 1.0;
    a = parameter("net.a", {start, start});
    b = parameter("net.b", {start, start, start});
    c = parameter("net.c", {start});
  }

  /// b and c wait for a.
  DdpOptions options() const {
    return {.delay_all_reduce_named_params = {parameters[1], parameters[2]},
            .param_to_hook_all_reduce = a};
  }

  Variable loss() const {
    return total(
        {flat_term(a, 1.0 + number), flat_term(b, 3.0 + 2.0 * number), flat_term(c, 5.0 + number)});
  }

  double number;
  Variable a;
  Variable b;
  Variable c;
};

/// What a rank of this world does with its model.
using RankBody = std::function<void(MiniRank& rank, const DelayedModel& model)>;

/// Two ranks with a model each; both must finish.
MiniResult run_models(const RankBody& body) {
  MiniResult result = run_mini_world({}, [&](MiniRank& rank) {
    const DelayedModel model(rank);
    body(rank, model);
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return result;
}

/// Only c waits for a, which the loss may leave out.
DdpOptions delaying_c(const DelayedModel& model) {
  DdpOptions options = model.options();
  options.delay_all_reduce_named_params = {model.parameters[2]};
  options.find_unused_parameters = true;
  return options;
}

/// The loss without a.
Variable loss_without_a(const DelayedModel& model) {
  return total(
      {flat_term(model.b, 3.0 + 2.0 * model.number), flat_term(model.c, 5.0 + model.number)});
}

TEST(DdpDelayedTest, TheBufferIsAveragedWhenTheTriggerIsReady) {
  const MiniResult result = run_models([](MiniRank& rank, const DelayedModel& model) {
    Ddp ddp(model.state(), rank.group, model.options());
    EXPECT_EQ(data_of(model.b), (Values{1, 1, 1}));
    EXPECT_EQ(ddp.buckets(), (std::vector<std::vector<std::int32_t>>{{0}}));
    for (int step = 0; step < 3; ++step) {
      for (const NamedVariable& one : model.parameters) one.variable.set_grad(Tensor());
      forward_backward(ddp, [&] { return model.loss(); });
      EXPECT_EQ(grad_of(model.a), (Values{1.5, 1.5}));
      EXPECT_EQ(grad_of(model.b), (Values{4, 4, 4}));
      EXPECT_EQ(grad_of(model.c), (Values{5.5}));
      EXPECT_TRUE(model.b.grad().shares_memory_with(model.c.grad()));
    }
  });
  // 16 bytes are less than the cap of 25, and the reducer's own parameter comes last.
  EXPECT_EQ(collectives_of(*result.trace, 0),
            (Texts{"B f32[4]",
                   "AG i64[1]",
                   "B i64[2]",
                   "B f32[2]",
                   "AR f32[4]",
                   "AR f32[2]",
                   "B i32[2]",
                   "B i32[1]",
                   "AR f32[4]",
                   "AR f32[2]",
                   "AR f32[4]",
                   "AR f32[2]"}));
}

// The negative twin: without the two arguments the same parameters go through the buckets.
TEST(DdpDelayedTest, WithoutTheArgumentsTheReducerDoesIt) {
  const MiniResult result = run_models([](MiniRank& rank, const DelayedModel& model) {
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] { return model.loss(); });
    EXPECT_EQ(grad_of(model.b), (Values{4, 4, 4}));
    EXPECT_FALSE(model.b.grad().shares_memory_with(model.c.grad()));
  });
  EXPECT_EQ(collectives_of(*result.trace, 0).back(), "AR f32[6]");
}

TEST(DdpDelayedTest, HistoryIsAveragedAgainAndNoSyncIsIgnored) {
  run_models([](MiniRank& rank, const DelayedModel& model) {
    Ddp ddp(model.state(), rank.group, model.options());
    for (int step = 1; step <= 3; ++step) {
      forward_backward(ddp, [&] { return model.loss(); });
      EXPECT_EQ(grad_of(model.b), (Values{4.0 * step, 4.0 * step, 4.0 * step}));
    }
    for (const NamedVariable& one : model.parameters) one.variable.set_grad(Tensor());
    const NoSync no_sync(ddp);
    forward_backward(ddp, [&] { return model.loss(); });
    EXPECT_EQ(grad_of(model.a), (Values{1.0 + rank.rank, 1.0 + rank.rank}));
    EXPECT_EQ(grad_of(model.b), (Values{4, 4, 4}));
  });
}

TEST(DdpDelayedTest, WithoutTheTriggersGradientNothingIsSent) {
  run_models([](MiniRank& rank, const DelayedModel& model) {
    Ddp ddp(model.state(), rank.group, delaying_c(model));
    forward_backward(ddp, [&] { return loss_without_a(model); });
    EXPECT_FALSE(model.a.grad().defined());
    EXPECT_EQ(grad_of(model.b), (Values{4, 4, 4}));
    EXPECT_EQ(grad_of(model.c), (Values{5.0 + rank.rank}));
  });
}

// An output that the loss leaves out gives the trigger an undefined gradient: that is enough.
TEST(DdpDelayedTest, AnUndefinedGradientOfTheTriggerCounts) {
  run_models([](MiniRank& rank, const DelayedModel& model) {
    Ddp ddp(model.state(), rank.group, delaying_c(model));
    ddp.before_forward(true);
    Variable left_out = flat_term(model.a, 1);
    Variable used = loss_without_a(model);
    Variable* const outputs[] = {&left_out, &used};
    ddp.after_forward(outputs);
    used.backward();
    EXPECT_FALSE(model.a.grad().defined());
    EXPECT_EQ(grad_of(model.c), (Values{5.5}));
  });
}

// init_sync or not, they become rank 0's; and a forward without grad lends zeros.
TEST(DdpDelayedTest, BroadcastsWithoutInitSyncAndLendsViewsInEvaluation) {
  const MiniResult result = run_models([](MiniRank& rank, const DelayedModel& model) {
    DdpOptions options = model.options();
    options.init_sync = false;
    Ddp ddp(model.state(), rank.group, options);
    const NoGradGuard no_grad(rank.runtime);
    ddp.before_forward(false);
    ddp.after_forward(model.loss());
    EXPECT_EQ(data_of(model.a), (Values{1.0 + rank.rank, 1.0 + rank.rank}));
    EXPECT_EQ(data_of(model.c), (Values{1}));
    EXPECT_FALSE(model.a.grad().defined());
    EXPECT_EQ(grad_of(model.c), (Values{0}));
  });
  EXPECT_EQ(collectives_of(*result.trace, 0), (Texts{"B f32[4]"}));
}

// The root's parameters are spelled ".w" by the reducer: it averages "w" again, from copies.
TEST(DdpDelayedTest, AParameterOfTheRootIsReducedTwice) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable b = model.parameter("b", {0});
    Ddp ddp(
        model.state(),
        rank.group,
        {.delay_all_reduce_named_params = {model.parameters[1]}, .param_to_hook_all_reduce = a});
    forward_backward(ddp, [&] {
      return total({flat_term(a, 1.0 + rank.rank), flat_term(b, 3.0 + rank.rank)});
    });
    EXPECT_EQ(grad_of(b), (Values{3.5}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts all = collectives_of(*result.trace, 0);
  EXPECT_EQ((Texts{all.end() - 2, all.end()}), (Texts{"AR f32[1]", "AR f32[2]"}));
}

std::string delayed_refusal(const std::function<DdpOptions(DelayedModel&)>& options) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    DelayedModel model(rank);
    const DdpOptions chosen = options(model);
    const Ddp ddp(model.state(), rank.group, chosen);
  });
  return result.error(0);
}

TEST(DdpDelayedTest, RefusesWhatPytorchRefuses) {
  const std::string both =
      "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time.";
  EXPECT_EQ(delayed_refusal([](DelayedModel& model) {
              return DdpOptions{.delay_all_reduce_named_params = {model.parameters[0]}};
            }),
            both);
  EXPECT_EQ(delayed_refusal([](DelayedModel& model) {
              return DdpOptions{.device_ids = {0, 1}, .param_to_hook_all_reduce = model.a};
            }),
            both);
  const auto all = [](DelayedModel& model) {
    return DdpOptions{.delay_all_reduce_named_params = model.parameters,
                      .param_to_hook_all_reduce = model.a};
  };
  EXPECT_EQ(delayed_refusal(all),
            "DistributedDataParallel's input module must be on the same type of devices, but input "
            "module parameters locate in set().");
  const std::string nothing_left = delayed_refusal([](DelayedModel& model) {
    model.a.set_requires_grad(false);
    DdpOptions options = model.options();
    options.param_to_hook_all_reduce = model.b;
    return options;
  });
  EXPECT_NE(nothing_left.find("no attribute '_lazy_init_ran'"), std::string::npos);
  EXPECT_EQ(
      delayed_refusal([](DelayedModel& model) {
        model.parameters[1].variable =
            Variable(Tensor::zeros(*model.runtime, {3}, DType::kF64), true);
        return DdpOptions{.delay_all_reduce_named_params = {model.parameters[1]},
                          .param_to_hook_all_reduce = model.a};
      }),
      "parameter 'net.b' is f64: the gradients of a delayed all-reduce share one f32 buffer.");
}

}  // namespace
}  // namespace lockstep
