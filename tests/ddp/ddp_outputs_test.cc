// Forwards that return more than one variable, and outputs that the loss leaves out.
#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::flat_term;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Values = std::vector<double>;

// Two heads, each with its own parameter, returned as whatever `Result` makes of them.
template <typename Result>
class TwoOutputs : public TinyModel {
 public:
  explicit TwoOutputs(Runtime& rt) : TinyModel(rt) {
    a = parameter("a", {0});
    b = parameter("b", {0});
  }

  std::vector<NamedVariable> named_parameters() { return parameters; }

  std::vector<NamedVariable> named_buffers() { return buffers; }

  bool is_training() const { return true; }

  Result forward(double factor) { return Result{flat_term(a, factor), flat_term(b, 2 * factor)}; }

  Variable a;
  Variable b;
};

struct Heads {
  Variable first;
  Variable second;

  template <typename Visit>
  void visit_outputs(Visit&& visit) {
    visit(first);
    visit(second);
  }
};

struct Opaque {
  Variable first;
  Variable second;
};

using Pair = std::pair<Variable, Variable>;

const Variable& first_of(const Pair& outputs) { return outputs.first; }

const Variable& first_of(const std::vector<Variable>& outputs) { return outputs[0]; }

const Variable& first_of(const std::tuple<Variable, Variable>& outputs) {
  return std::get<0>(outputs);
}

const Variable& first_of(const Heads& outputs) { return outputs.first; }

const Variable& first_of(const Opaque& outputs) { return outputs.first; }

// The second output is never part of the loss.
template <typename Result>
MiniResult train_first_output(const DdpOptions& options) {
  return run_mini_world({}, [&options](MiniRank& rank) {
    TwoOutputs<Result> model(rank.runtime);
    DistributedDataParallel ddp(model, rank.group, options);
    for (int step = 0; step < 2; ++step) {
      model.a.set_grad(Tensor());
      first_of(ddp(2.0 * (1 + rank.rank))).backward();
      // From the second step on a static graph waits for the second output, which never comes.
      const double local = 2.0 * (1 + rank.rank);
      EXPECT_EQ(grad_of(model.a), (Values{step > 0 && options.static_graph ? local : 3}));
      EXPECT_FALSE(model.b.grad().defined());
    }
    ddp(1.0);  // Nothing was left unfinished.
  });
}

template <typename Result>
class DdpOutputsTest : public ::testing::Test {};

using Structures =
    ::testing::Types<Pair, std::vector<Variable>, std::tuple<Variable, Variable>, Heads>;
TYPED_TEST_SUITE(DdpOutputsTest, Structures);

TYPED_TEST(DdpOutputsTest, AnOutputLeftOutOfTheLossLeavesItsGradientAlone) {
  const MiniResult result = train_first_output<TypeParam>({.find_unused_parameters = true});
  EXPECT_TRUE(result.ok()) << result.error(0);
}

// The extra node is there in the first iteration alone: a firing that is counted then and missed
// ever after. PyTorch 1.13 ends the same way.
TYPED_TEST(DdpOutputsTest, AStaticGraphMissesTheLeftOutOutputFromTheSecondIterationOn) {
  const MiniResult result = train_first_output<TypeParam>({.static_graph = true});
  EXPECT_NE(result.error(0).find("this is not compatible with static_graph set to True.\nParameter "
                                 "indices which did not receive grad for rank 0: 1"),
            std::string::npos)
      << result.error(0);
}

TYPED_TEST(DdpOutputsTest, WithoutTheFlagTheNextForwardComplains) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TwoOutputs<TypeParam> model(rank.runtime);
    DistributedDataParallel ddp(model, rank.group);
    first_of(ddp(1.0)).backward();
    ddp(1.0);
  });
  EXPECT_NE(result.error(0).find("did not receive grad for rank 0: 1"), std::string::npos)
      << result.error(0);
}

// What hides in an unknown type looks unused, so that its gradients come as a surprise.
TEST(DdpHiddenOutputsTest, OutputsInAnUnknownTypeAreNotFound) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TwoOutputs<Opaque> model(rank.runtime);
    DistributedDataParallel ddp(model, rank.group, {.find_unused_parameters = true});
    first_of(ddp(1.0)).backward();
  });
  EXPECT_NE(result.error(0).find("has been marked as ready twice"), std::string::npos);
}

// "Used" means that there is a gradient when the hook fires, wherever it came from.
TEST(DdpHiddenOutputsTest, AStaleGradientOfALeftOutOutputCountsAsUsed) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TwoOutputs<Pair> model(rank.runtime);
    DistributedDataParallel ddp(model, rank.group, {.find_unused_parameters = true});
    if (rank.rank == 0) model.b.set_grad(Tensor::full(rank.runtime, {1}, DType::kF32, 7));
    ddp(1.0).first.backward();
    EXPECT_EQ(grad_of(model.b), (Values{3.5}));
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
}

// Both outputs used, in one loss and in two.
TEST(DdpHiddenOutputsTest, OutputsMayBeDifferentiatedTogetherOrOneByOne) {
  for (const bool together : {true, false}) {
    const MiniResult result = run_mini_world({}, [together](MiniRank& rank) {
      TwoOutputs<Pair> model(rank.runtime);
      DistributedDataParallel ddp(model, rank.group);
      Pair outputs = ddp(1.0 + rank.rank);
      if (together) {
        add(outputs.first, outputs.second).backward();
      } else {
        outputs.first.backward();
        outputs.second.backward();
      }
      EXPECT_EQ(grad_of(model.a), (Values{1.5}));
      EXPECT_EQ(grad_of(model.b), (Values{3}));
    });
    EXPECT_TRUE(result.ok()) << result.error(0);
  }
}

// More outputs than a node has edges; all but the fourth are used.
TEST(DdpHiddenOutputsTest, ManyOutputsShareOneNode) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    std::vector<Variable> parameters;
    for (int i = 0; i < 7; ++i) parameters.push_back(model.parameter("p" + std::to_string(i), {0}));
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    ddp.before_forward(true);
    std::vector<Variable> outputs;
    std::vector<Variable*> places;
    for (int i = 0; i < 7; ++i) {
      outputs.push_back(flat_term(parameters[static_cast<std::size_t>(i)], i + rank.rank));
    }
    for (Variable& output : outputs) places.push_back(&output);
    ddp.after_forward(places);
    Variable loss = outputs[0];
    for (std::size_t i = 1; i < 7; ++i) {
      if (i != 3) loss = add(loss, outputs[i]);
    }
    loss.backward();
    for (std::size_t i = 0; i < 7; ++i) {
      if (i == 3) {
        EXPECT_FALSE(parameters[i].grad().defined());
      } else {
        EXPECT_EQ(grad_of(parameters[i]), (Values{static_cast<double>(i) + 0.5})) << i;
      }
    }
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 2, 2, 0, 2, 2, 2}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// A parameter returned as it is was not computed: it is not copied, but notified of the end.
TEST(DdpHiddenOutputsTest, AReturnedParameterStaysItself) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable b = model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    ddp.before_forward(true);
    Variable output = flat_term(a, 1);
    Variable leaf = b;
    Variable* const outputs[] = {&output, &leaf};
    ddp.after_forward(outputs);
    EXPECT_TRUE(leaf == b);
    output.backward();
    EXPECT_FALSE(b.grad().defined());
    ddp.before_forward(true);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

}  // namespace
}  // namespace lockstep
