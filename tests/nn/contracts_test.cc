// What errors say when a contract of modules is broken: the values.
#include <gtest/gtest.h>

#include "lockstep/models/gpt.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/pooling.h"

#include "tests/support/complaint.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::expect_complaints;
using lockstep::testing::PlainRuntime;

TEST(ModuleContractsTest, SayWhichOptionMakesNoSense) {
  PlainRuntime rt;
  Generator generator(1);

  expect_complaints({
      {[&] { Dropout(rt, 1.5, generator); },
       "a dropout probability must be between 0 and 1, not 1.5"},
      {[&] { Embedding(rt, 4, 2, {.padding = 4}); },
       "padding 4 is not a row of the embedding, which has 4"},
      {[&] { Gpt(rt, {.vocab = 8, .context = 4, .layers = 1, .heads = 3, .width = 16}); },
       "a GPT's width is a multiple of its heads, not 16 with 3 heads"},
      {[&] { Gpt(rt, {.vocab = 0, .context = 4, .layers = 1}); },
       "a GPT with vocab 0, context 4 and 1 layers: each is at least 1"},
      {[&] {
         Unflatten(rt, {3, 4});
       },
       "an image has shape (C, H, W), not [3, 4]"},
  });
}

TEST(ModuleContractsTest, SayHowManyValuesAModelTakes) {
  PlainRuntime rt;
  Linear layer(rt, 2, 1, {.bias = false});
  const std::vector<double> one = {1};
  const std::vector<double> three = {1, 2, 3};

  expect_complaints({
      {[&] { init::values(layer, one); },
       "the model has more elements than the 1 values that were given"},
      {[&] { init::values(layer, three); }, "the model has 2 elements, 3 values were given"},
  });
}

}  // namespace
}  // namespace lockstep::nn
