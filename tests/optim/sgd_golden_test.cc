// Every option of SGD over three steps, bit for bit against a real PyTorch.
#include <gtest/gtest.h>

#include "lockstep/optim/sgd.h"

#include "tests/golden/golden_bits.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

constexpr std::int64_t kSgdElements = 19;
constexpr int kSgdSteps = 3;

SgdOptions recorded_options(const golden::Case& one) {
  const auto number = [&one](std::size_t i) { return parse_double(one.arguments.at(i)).value(); };
  return {.lr = number(1),
          .momentum = number(2),
          .dampening = number(3),
          .weight_decay = number(4),
          .nesterov = number(5) != 0.0,
          .maximize = number(6) != 0.0};
}

std::string train(const SgdOptions& options, DType dtype, const std::string& inputs) {
  PlainRuntime rt;
  golden::WordReader reader(inputs);
  const Variable parameter(reader.take(rt, {kSgdElements}, dtype), true);
  Sgd sgd({parameter}, options);
  std::vector<std::string> words;
  for (int step = 0; step < kSgdSteps; ++step) {
    parameter.set_grad(reader.take(rt, {kSgdElements}, dtype));
    sgd.step();
    golden::append(words, parameter.data());
  }
  for (const StateList& list : sgd.state()) golden::append(words, list.tensors[0]);
  return join(words, " ");
}

TEST(SgdGoldenTest, StepsHaveTheBitsOfPyTorch) {
  int n_cases = 0;
  for (const golden::Case& one : golden::read("training.txt")) {
    if (one.kind != "sgd") continue;
    ++n_cases;
    const std::size_t bar = one.values.find(" | ");
    const std::string inputs = one.values.substr(0, bar);
    const DType dtype = parse_enum<DType>(one.arguments.at(0)).value();
    SgdOptions options = recorded_options(one);

    EXPECT_EQ(train(options, dtype, inputs), one.values.substr(bar + 3)) << one.text();

    options.lr *= 1.0 + 1e-6;
    EXPECT_NE(train(options, dtype, inputs), one.values.substr(bar + 3)) << one.text();
  }
  EXPECT_EQ(n_cases, 14);
}

}  // namespace
}  // namespace lockstep::optim
