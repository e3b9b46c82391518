// Every differentiable operation in f16 and bf16, forward and backward, against PyTorch 2.15
// (tests/golden/ops16_torch2.txt).
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "lockstep/functional/cast.h"

#include "tests/golden/op_answers.h"
#include "tests/golden/op_judgement.h"
#include "tests/support/test_runtime.h"

namespace lockstep::golden {
namespace {

using lockstep::testing::TestRuntime;

class Ops16GoldenTest : public ::testing::Test {
 protected:
  std::vector<Tensor> run(const Case& one) { return run_op(parse_op(test_.runtime, one.text())); }

  /// The same operation all in f32, every answer rounded once at its end.
  std::vector<Tensor> run_wide(const Case& one) {
    OpCase in = parse_op(test_.runtime, one.text());
    const DType narrow = in.dtype;
    in.dtype = DType::kF32;
    for (Variable& leaf : in.leaves) leaf = Variable(leaf.data().to(DType::kF32), true);
    for (Tensor& constant : in.constants) constant = constant.to(DType::kF32);
    for (Tensor& buffer : in.buffers) buffer = buffer.to(DType::kF32);
    in.gradient = in.gradient.to(DType::kF32);
    std::vector<Tensor> rounded;
    for (const Tensor& tensor : run_op(in)) rounded.push_back(tensor.to(narrow));
    return rounded;
  }

  TestRuntime test_;
  std::vector<Case> cases_ = read("ops16_torch2.txt");
};

TEST_F(Ops16GoldenTest, EveryOperationAgreesWithTorchForwardAndBackward) {
  std::set<std::string> names;
  for (const Case& one : cases_) {
    EXPECT_EQ(first_misfit(run(one), one.values), -1) << one.text();
    names.insert(one.kind);
  }
  EXPECT_EQ(cases_.size(), 222U);
  EXPECT_EQ(names.size(), kOps.size());  // No operation is left out.
}

TEST_F(Ops16GoldenTest, TheNextNumberIsNoticedWhereBitsArePromised) {
  int n_tried = 0;
  for (const Case& one : cases_) {
    const std::vector<Tensor> got = run(one);
    const std::vector<std::string> parts = parts_of(one.values, " | ");
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (parts[i].find('~') != std::string::npos) continue;
      const Tensor changed = got[i].clone();
      auto* const words = static_cast<std::uint16_t*>(changed.write_raw());
      words[changed.n_elems() - 1] ^= 1U;
      EXPECT_FALSE(part_fits(changed, parts[i])) << one.text() << " part " << i;
      ++n_tried;
    }
  }
  EXPECT_GT(n_tried, 250);
}

// What rounds on the way in PyTorch is distinguished from one rounding at the end, and only that.
TEST_F(Ops16GoldenTest, OneRoundingAtTheEndIsNoticedWherePytorchRoundsOnTheWay) {
  std::map<std::string, int> n_misfits;
  for (const Case& one : cases_) {
    n_misfits[one.kind] += first_misfit(run_wide(one), one.values) == -1 ? 0 : 1;
  }
  for (const std::string kind : {"avg_pool2d", "max_pool2d", "embedding", "mse", "dropout"}) {
    EXPECT_GT(n_misfits[kind], 0) << kind;
  }
  for (const std::string kind : {"add", "sub", "mul", "relu", "linear", "sum", "flatten"}) {
    EXPECT_EQ(n_misfits[kind], 0) << kind;
  }
}

TEST_F(Ops16GoldenTest, ABiasAddedToARoundedProductIsNoticed) {
  int n_noticed = 0;
  for (const Case& one : cases_) {
    const OpCase in = parse_op(test_.runtime, one.text());
    if (one.kind != "linear" || in.leaves.size() != 3) continue;
    std::vector<Tensor> got = run(one);
    const Variable product = linear(in.leaf(0), in.leaf(1), Variable());
    test_.kernels->add_row(got[0], product.data(), in.leaf(2).data());
    n_noticed += first_misfit(got, one.values) == 0 ? 1 : 0;
  }
  EXPECT_GT(n_noticed, 0);
}

}  // namespace
}  // namespace lockstep::golden
