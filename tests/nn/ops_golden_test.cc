// Every differentiable operation, forward and backward, against a real PyTorch
// (tests/golden/ops.txt): bits where both sides round in the same way, a derived bound
// (tests/live/op_bounds.py) where they need not.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/golden/op_answers.h"
#include "tests/golden/op_judgement.h"
#include "tests/support/test_runtime.h"

namespace lockstep::golden {
namespace {

using lockstep::testing::TestRuntime;

class OpsGoldenTest : public ::testing::Test {
 protected:
  std::vector<Tensor> run(const std::string& line) { return run_op(parse_op(test_.runtime, line)); }

  std::vector<Tensor> run(const Case& one) { return run(one.text()); }

  TestRuntime test_;
  std::vector<Case> cases_ = read("ops.txt");
};

TEST_F(OpsGoldenTest, EveryOperationAgreesWithTorchForwardAndBackward) {
  std::set<std::string> names;
  for (const Case& one : cases_) {
    EXPECT_EQ(first_misfit(run(one), one.values), -1) << one.text();
    names.insert(one.kind);
  }
  EXPECT_EQ(cases_.size(), 268U);
  EXPECT_EQ(names.size(), kOps.size() + kFullWidthOps.size());  // No operation is left out.
}

TEST_F(OpsGoldenTest, EveryElementCounts) {
  for (const Case& one : cases_) {
    const std::vector<Tensor> got = run(one);
    const std::vector<std::string> parts = parts_of(one.values, " | ");
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor wide = got[i].to(DType::kF64).clone();
      const bool exact = parts[i].find('~') == std::string::npos;
      const Tensor limits = exact ? Tensor::zeros(test_.runtime, wide.shape(), DType::kF64)
                                  : WordReader(parts_of(parts[i], " ~ ")[1])
                                        .take(test_.runtime, wide.shape(), DType::kF64);
      const std::int64_t last = wide.n_elems() - 1;
      // The next number for bits; elsewhere beyond the limit, whatever error was there already.
      double& value = wide.data<double>()[last];
      const double step = std::fabs(value) * 0x1p-23 + 0x1p-120;
      value += 2.5 * limits.at(last) + step;
      EXPECT_FALSE(part_fits(wide.to(got[i].dtype()), parts[i])) << one.text() << " part " << i;
    }
  }
}

// -- negative twins: mistakes that such layers are known for

TEST_F(OpsGoldenTest, AnotherStrideOrPaddingIsNoticed) {
  int n_tried = 0;
  for (const Case& one : cases_) {
    if (one.kind != "conv2d") continue;
    const std::vector<Tensor> got = run(one);
    const std::vector<double> slopes = lockstep::testing::values_of(got[2]);
    const bool in_padding = std::count(slopes.begin(), slopes.end(), 0.0) == got[2].n_elems();
    if (in_padding || got[0].size(2) * got[0].size(3) == 1) continue;  // The place does not matter.
    for (const std::string other : {"1,0", "1,1", "2,0", "2,1", "3,1", "3,2"}) {
      Case twin = one;
      twin.arguments[1] = other;
      if (other == one.arguments[1]) continue;
      ++n_tried;
      try {
        EXPECT_NE(first_misfit(run(twin), one.values), -1) << one.text() << " as " << other;
      } catch (const ContractViolation&) {
        continue;  // Another shape of result.
      }
    }
  }
  EXPECT_GT(n_tried, 10);
}

TEST_F(OpsGoldenTest, AnotherStrideThatGivesTheSameShapeIsNoticed) {
  const std::string image =
      "x 1x1x3x3 3f800000 40000000 40400000 40800000 40a00000 40c00000 "
      "40e00000 41000000 41100000";
  const std::string rest =
      " ; x 1x1x2x2 3f800000 3f800000 3f800000 40000000 ; "
      "g 1x1x2x2 3f800000 3f800000 3f800000 3f800000";

  const std::string right = answer_op(test_.runtime, "conv2d f32 1,0 ; " + image + rest);

  EXPECT_EQ(first_misfit(run("conv2d f32 1,0 ; " + image + rest), right), -1);
  EXPECT_EQ(first_misfit(run("conv2d f32 2,1 ; " + image + rest), right), 0);
}

TEST_F(OpsGoldenTest, ATransposedWeightIsNoticed) {
  const std::string x = "linear f32 - ; x 1x2 3f800000 40000000 ; ";
  const std::string gradient = " ; g 1x2 3f800000 40400000";
  const std::string right = x + "x 2x2 3f800000 40000000 40400000 40800000" + gradient;
  const std::string transposed = x + "x 2x2 3f800000 40400000 40000000 40800000" + gradient;

  const std::string answer = answer_op(test_.runtime, right);

  EXPECT_EQ(answer.substr(0, 17), "40a00000 41300000");  // 1 + 2 * 2 and 3 + 2 * 4.
  EXPECT_EQ(first_misfit(run(transposed), answer), 0);
}

TEST_F(OpsGoldenTest, ADroppedBiasGradientIsNoticed) {
  int n_tried = 0;
  for (const Case& one : cases_) {
    std::vector<Tensor> got = run(one);
    const bool with_bias = (one.kind == "conv2d" || one.kind == "linear") && got.size() == 4;
    if (!with_bias) continue;
    test_.kernels->fill(got[3], 0.0);
    EXPECT_EQ(first_misfit(got, one.values), 3) << one.text();
    ++n_tried;
  }
  EXPECT_GE(n_tried, 8);
}

TEST_F(OpsGoldenTest, ABiasedRunningVarianceIsNoticed) {
  int n_tried = 0;
  for (const Case& one : cases_) {
    if (one.kind != "batch_norm") continue;
    const OpCase in = parse_op(test_.runtime, one.text());
    if (in.buffers.empty() || !in.flag(2)) continue;
    const Tensor before = in.buffers[1].clone();
    std::vector<Tensor> got = run_op(in);
    const Tensor& x = in.leaves[0].data();
    const std::int64_t n_values = x.n_elems() / x.size(1);
    const auto n = static_cast<double>(n_values);
    const Tensor biased = got.back().to(DType::kF64).clone();
    for (std::int64_t c = 0; c < biased.n_elems(); ++c) {
      const double kept = (1.0 - in.parameters[0]) * before.at(c);
      biased.data<double>()[c] = kept + (biased.at(c) - kept) * (n - 1.0) / n;
    }
    got.back() = biased.to(before.dtype());
    EXPECT_EQ(first_misfit(got, one.values), static_cast<int>(got.size()) - 1) << one.text();
    ++n_tried;
  }
  EXPECT_GE(n_tried, 8);
}

TEST_F(OpsGoldenTest, TheLastOfEqualMaximaIsNoticed) {
  const std::string head = "max_pool2d f32 1,2,2,0 ; x 1x1x1x2 3f800000 3f800000 ; g 1x1x1x1 ";

  const std::vector<Tensor> got = run(head + "40000000");

  EXPECT_EQ(first_misfit(got, "3f800000 | 40000000 00000000"), -1);
  EXPECT_EQ(first_misfit(got, "3f800000 | 00000000 40000000"), 1);
}

}  // namespace
}  // namespace lockstep::golden
