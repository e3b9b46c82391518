// A model's state as a value: names, strict loads, copies.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/models/gpt.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/sequential.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const StateEntry& entry : state) names.push_back(entry.name);
  return names;
}

class StateDictTest : public ::testing::Test {
 protected:
  void fill(const Module& model, double value) {
    for (const Variable& parameter : model.parameters()) {
      rt_.kernels().fill(parameter.data(), value);
    }
  }

  template <typename Act>
  static std::string refusal(Act act) {
    try {
      act();
    } catch (const std::exception& refused) {
      return refused.what();
    }
    return "";
  }

  PlainRuntime rt_;
};

// PyTorch lists a module's parameters, then its buffers, then its submodules.
TEST_F(StateDictTest, HasPyTorchsNamesAndOrder) {
  Sequential model(rt_);
  model.append<BatchNorm1d>(2);
  model.append<ReLU>();
  model.append<Linear>(2, 1);

  EXPECT_THAT(names_of(model.state_dict()),
              ElementsAre("0.weight",
                          "0.bias",
                          "0.running_mean",
                          "0.running_var",
                          "0.num_batches_tracked",
                          "2.weight",
                          "2.bias"));
}

TEST_F(StateDictTest, TiedWeightsHaveBothNames) {
  const Gpt model(rt_, {.vocab = 3, .context = 2, .layers = 1, .heads = 1, .width = 2});
  const StateDict state = model.state_dict();

  EXPECT_TRUE(state.contains("wte.weight"));
  EXPECT_TRUE(state.at("lm_head.weight").is_alias_of(state.at("wte.weight")));
}

TEST_F(StateDictTest, SharesMemoryUntilItIsCloned) {
  Linear model(rt_, 2, 1);
  fill(model, 1.0);
  const StateDict live = model.state_dict();
  const StateDict kept = live.clone();

  fill(model, 2.0);

  EXPECT_EQ(live.at("bias").item(), 2.0);
  EXPECT_EQ(kept.at("bias").item(), 1.0);
}

TEST_F(StateDictTest, ALoadCopiesIntoTheParametersThatOptimizersHold) {
  Linear from(rt_, 2, 1);
  Linear into(rt_, 2, 1);
  fill(from, 3.0);
  fill(into, 0.0);
  const Variable held = into.weight();
  const std::uint32_t version = held.data().storage()->version();

  EXPECT_TRUE(into.load_state_dict(from.state_dict()).empty());
  fill(from, 4.0);

  EXPECT_THAT(values_of(held.data()), ElementsAre(3.0, 3.0));
  EXPECT_NE(held.data().storage()->version(), version);
}

TEST_F(StateDictTest, AModelMayLoadItsOwnState) {
  Linear model(rt_, 2, 1);
  fill(model, 3.0);
  model.load_state_dict(model.state_dict());
  EXPECT_THAT(values_of(model.weight().data()), ElementsAre(3.0, 3.0));
}

TEST_F(StateDictTest, ALoadConvertsTypes) {
  Linear from(rt_, 1, 1, {.dtype = DType::kF64});
  Linear into(rt_, 1, 1, {.dtype = DType::kF32});
  fill(from, 0.1);
  into.load_state_dict(from.state_dict());
  EXPECT_EQ(into.bias().item(), static_cast<double>(0.1F));
}

// The words between the names are PyTorch's.
TEST_F(StateDictTest, AStrictLoadNamesWhatIsMissingAndUnexpectedAndCopiesNothing) {
  Linear from(rt_, 2, 1);
  Linear into(rt_, 2, 1);
  fill(from, 3.0);
  fill(into, 0.0);
  StateDict state = from.state_dict();
  state.erase("bias");
  state.set("scale", Tensor::zeros(rt_, {1}, DType::kF32));

  const std::string text = refusal([&] { into.load_state_dict(state); });

  EXPECT_THAT(text, HasSubstr("Error(s) in loading state_dict:\n\t"));
  EXPECT_THAT(text, HasSubstr("Missing key(s) in state_dict: \"bias\". "));
  EXPECT_THAT(text, HasSubstr("Unexpected key(s) in state_dict: \"scale\". "));
  EXPECT_THAT(text, HasSubstr("state_dict_test.cc:"));
  EXPECT_EQ(into.weight().data().at(0), 0.0);
}

TEST_F(StateDictTest, ALoadThatIsNotStrictReturnsThemAndCopiesTheRest) {
  Linear from(rt_, 2, 1);
  Linear into(rt_, 2, 1);
  fill(from, 3.0);
  fill(into, 0.0);
  StateDict state = from.state_dict();
  state.erase("bias");
  state.set("scale", Tensor::zeros(rt_, {1}, DType::kF32));

  const IncompatibleKeys keys = into.load_state_dict(state, false);

  EXPECT_THAT(keys.missing_keys, ElementsAre("bias"));
  EXPECT_THAT(keys.unexpected_keys, ElementsAre("scale"));
  EXPECT_EQ(into.weight().data().at(0), 3.0);
  EXPECT_EQ(into.bias().item(), 0.0);
}

TEST_F(StateDictTest, AnotherShapeIsRefusedStrictOrNot) {
  Linear from(rt_, 3, 1);
  Linear into(rt_, 2, 1);
  for (const bool strict : {true, false}) {
    EXPECT_THAT(refusal([&] { into.load_state_dict(from.state_dict(), strict); }),
                HasSubstr("size mismatch for weight: copying a param with shape [1, 3] from "
                          "checkpoint, the shape in current model is [1, 2]."));
  }
}

TEST_F(StateDictTest, AnUnknownNameIsRefusedWithThoseThatAreThere) {
  const Linear model(rt_, 2, 1);
  const StateDict state = model.state_dict();
  EXPECT_EQ(state.find("wieght"), nullptr);
  EXPECT_THAT(refusal([&] { (void)state.at("wieght"); }),
              HasSubstr("no 'wieght' in this state; it has \"weight\", \"bias\""));
  EXPECT_THAT(refusal([&] {
                StateDict({{"a", Tensor()}, {"a", Tensor()}});
              }),
              HasSubstr("'a' occurs twice"));
}

TEST_F(StateDictTest, ACopyHasTheValuesAndTheModeAndNothingInCommon) {
  BatchNorm1d model(rt_, 2);
  fill(model, 2.0);
  model.eval();
  model.requires_grad(false);

  const auto copy = copy_of(model, rt_, 2);
  fill(model, 5.0);

  EXPECT_FALSE(copy->is_training());
  EXPECT_THAT(values_of(copy->state_dict().at("weight")), ElementsAre(2.0, 2.0));
  EXPECT_TRUE(copy->parameters()[0].requires_grad());
  EXPECT_FALSE(model.parameters()[0].requires_grad());
  EXPECT_THAT(names_of(copy->state_dict()), Not(IsEmpty()));
}

}  // namespace
}  // namespace lockstep::nn
