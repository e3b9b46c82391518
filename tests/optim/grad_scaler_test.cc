#include "lockstep/optim/grad_scaler.h"

#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/kernels.h"

#include "tests/golden/golden_bits.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string float_word(double value) {
  return hex64(std::bit_cast<std::uint32_t>(static_cast<float>(value))).substr(8);
}

GradScalerOptions scaler_options(const golden::Case& one) {
  return {.init_scale = parse_double(one.arguments.at(0)).value(),
          .growth_factor = parse_double(one.arguments.at(1)).value(),
          .backoff_factor = parse_double(one.arguments.at(2)).value(),
          .growth_interval = one.integer(3)};
}

double tracker_of(const GradScaler& scaler) { return scaler.state().back().value; }

/// The words of the golden file's right side, computed here.
std::string run_script(const GradScalerOptions& options, const std::string& script) {
  PlainRuntime rt;
  const Variable parameter(rt.tensor({2}, {1.0, -0.5}, DType::kF32), true);
  Sgd sgd({parameter}, {.lr = 0.125});
  GradScaler scaler(options);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < script.size(); ++i) {
    scaler.scale(sum(parameter));
    const Tensor grad = rt.tensor({2}, {0.1 * static_cast<double>(i) - 1.3, 0.7}, DType::kF32);
    rt.kernels().scale(grad, grad, scaler.get_scale());
    if (script[i] != 'g') {
      const double bad = script[i] == 'i' ? kInf : -kInf;
      grad.data<float>()[1] =
          script[i] == 'n' ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(bad);
    }
    parameter.set_grad(grad);
    scaler.step(sgd);
    scaler.update();
    words.push_back(float_word(scaler.get_scale()));
    words.push_back(std::to_string(static_cast<int>(tracker_of(scaler))));
    golden::append(words, parameter.data());
  }
  return join(words, " ");
}

TEST(GradScalerTest, ScaleTrackerAndParametersHaveTheBitsOfPyTorch) {
  const std::vector<golden::Case> cases = golden::read("grad_scaler.txt");
  ASSERT_EQ(cases.size(), 5U);
  for (const golden::Case& one : cases) {
    const std::size_t bar = one.values.find(" | ");
    const std::string script = one.values.substr(0, bar);
    const std::string wanted = one.values.substr(bar + 3);
    GradScalerOptions options = scaler_options(one);

    EXPECT_EQ(run_script(options, script), wanted) << one.text();

    // The twin: growth that comes one step late.
    ++options.growth_interval;
    EXPECT_NE(run_script(options, script), wanted) << one.text();
  }
}

class GradScalerOrderTest : public ::testing::Test {
 protected:
  GradScalerOrderTest()
      : parameter_(rt_.tensor({2}, {1.0, 2.0}, DType::kF32), true), sgd_({parameter_}, {}) {}

  void backward() { scaler_.scale(sum(parameter_)).backward(); }

  template <typename F>
  static std::string error_of(F&& call) {
    try {
      call();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  PlainRuntime rt_;
  Variable parameter_;
  Sgd sgd_;
  GradScaler scaler_{{.init_scale = 1024.0}};
};

TEST_F(GradScalerOrderTest, UnscaledGradientsAreThoseOfTheLoss) {
  backward();
  EXPECT_EQ(parameter_.grad().data<float>()[0], 1024.0F);

  scaler_.unscale(sgd_);

  EXPECT_EQ(parameter_.grad().data<float>()[0], 1.0F);
  EXPECT_TRUE(scaler_.step(sgd_));
}

TEST_F(GradScalerOrderTest, UnscalingTwiceIsRefused) {
  backward();
  scaler_.unscale(sgd_);

  EXPECT_EQ(error_of([this] { scaler_.unscale(sgd_); }),
            "unscale_() has already been called on this optimizer since the last update().");
}

TEST_F(GradScalerOrderTest, UnscalingAfterTheStepIsRefused) {
  backward();
  scaler_.step(sgd_);

  EXPECT_EQ(error_of([this] { scaler_.unscale(sgd_); }),
            "unscale_() is being called after step().");
}

TEST_F(GradScalerOrderTest, SteppingTwiceIsRefusedUntilTheUpdate) {
  backward();
  scaler_.step(sgd_);

  EXPECT_EQ(error_of([this] { scaler_.step(sgd_); }),
            "step() has already been called since the last update().");

  scaler_.update();
  EXPECT_TRUE(scaler_.step(sgd_));
}

TEST_F(GradScalerOrderTest, WhatPyTorchAssertsIsAContractViolation) {
  EXPECT_THAT(error_of([this] { scaler_.step(sgd_); }),
              HasSubstr("Attempted step but _scale is None.  This may indicate your script did not "
                        "use scaler.scale(loss or outputs) earlier in the iteration."));
  scaler_.scale(sum(parameter_));
  EXPECT_THAT(error_of([this] { scaler_.update(); }),
              HasSubstr("No inf checks were recorded prior to update."));
  EXPECT_THAT(error_of([this] { scaler_.step(sgd_); }),
              HasSubstr("No inf checks were recorded for this optimizer."));
  EXPECT_THAT(error_of([] { const GradScaler bad({.growth_factor = 1.0}); }),
              HasSubstr("The growth factor must be > 1.0."));
  EXPECT_THAT(error_of([] { const GradScaler bad({.backoff_factor = 1.0}); }),
              HasSubstr("The backoff factor must be < 1.0."));
}

TEST_F(GradScalerOrderTest, OneOptimizerThatOverflowsLowersTheScaleForAll) {
  const Variable other(rt_.tensor({1}, {1.0}, DType::kF32), true);
  Sgd second({other}, {.lr = 1.0});
  scaler_.scale(sum(parameter_)).backward();
  other.set_grad(rt_.tensor({1}, {kInf}, DType::kF32));

  EXPECT_TRUE(scaler_.step(sgd_));
  EXPECT_FALSE(scaler_.step(second));
  scaler_.update();

  EXPECT_EQ(other.data().data<float>()[0], 1.0F);
  EXPECT_EQ(scaler_.get_scale(), 512.0);
}

TEST_F(GradScalerOrderTest, ANewScaleReplacesTheOldOne) {
  backward();
  scaler_.step(sgd_);
  scaler_.update(3.0);

  EXPECT_EQ(scaler_.get_scale(), 3.0);
}

TEST_F(GradScalerOrderTest, ADisabledScalerOnlySteps) {
  GradScaler off({.enabled = false});
  EXPECT_EQ(off.scale(parameter_), parameter_);
  parameter_.set_grad(rt_.tensor({2}, {kInf, 0.0}, DType::kF32));

  EXPECT_TRUE(off.step(sgd_));
  off.update();

  EXPECT_EQ(parameter_.data().data<float>()[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(off.get_scale(), 1.0);
  EXPECT_TRUE(off.state().empty());
}

TEST_F(GradScalerOrderTest, StateIsSavedAndLoadedByPyTorchsNames) {
  backward();
  scaler_.step(sgd_);
  scaler_.update();
  const std::vector<StateNumber> wanted = {{"scale", 1024.0},
                                           {"growth_factor", 2.0},
                                           {"backoff_factor", 0.5},
                                           {"growth_interval", 2000.0},
                                           {"_growth_tracker", 1.0}};
  EXPECT_EQ(scaler_.state(), wanted);

  GradScaler fresh;
  fresh.load_state(wanted);
  EXPECT_EQ(fresh.state(), wanted);
  EXPECT_THAT(error_of([&] { fresh.load_state({}); }),
              HasSubstr("The source state dict is empty, possibly because it was saved from a "
                        "disabled instance of GradScaler."));
}

}  // namespace
}  // namespace lockstep::optim
