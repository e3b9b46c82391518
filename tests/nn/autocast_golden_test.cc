// Every differentiable operation under autocast, forward and backward, against PyTorch 2.15
// (tests/golden/autocast_torch2.txt).
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/golden/op_answers.h"
#include "tests/golden/op_judgement.h"
#include "tests/support/test_runtime.h"

namespace lockstep::golden {
namespace {

using lockstep::testing::TestRuntime;

class AutocastGoldenTest : public ::testing::Test {
 protected:
  OpCase parse(const Case& one) { return parse_op(test_.runtime, one.text()); }

  TestRuntime test_;
  std::vector<Case> cases_ = read("autocast_torch2.txt");
};

TEST_F(AutocastGoldenTest, EveryOperationAgreesWithTorchForwardAndBackward) {
  std::set<std::string> names;
  for (const Case& one : cases_) {
    EXPECT_EQ(first_misfit(run_op(parse(one)), one.values), -1) << one.text();
    names.insert(one.kind);
  }
  EXPECT_EQ(cases_.size(), 312U);
  EXPECT_EQ(names.size(), kOps.size() + kAttentionOps.size());  // No operation is left out.
}

// What is not converted computes the same without autocast; f64 words differ from f32 ones in number
// of digits alone, so answers of another dtype are refused, too.
TEST_F(AutocastGoldenTest, AnswersWithoutAutocastAreNoticedWhereItConvertsAndNowhereElse) {
  std::map<std::string, int> n_misfits;
  for (const Case& one : cases_) {
    OpCase in = parse(one);
    in.autocast = false;
    std::set<DType> dtypes;
    for (const Variable& leaf : in.leaves) dtypes.insert(leaf.data().dtype());
    const bool takes_one = one.kind == "linear" || one.kind == "conv2d" || one.kind == "attention";
    if (takes_one && dtypes.size() > 1) continue;
    n_misfits[one.kind] += first_misfit(run_op(in), one.values) == -1 ? 0 : 1;
  }
  const std::set<std::string> converting = {
      "linear", "conv2d", "attention", "self_attention", "mse", "l1", "cross_entropy"};
  for (const auto& [kind, n] : n_misfits) EXPECT_EQ(n > 0, converting.contains(kind)) << kind;
}

}  // namespace
}  // namespace lockstep::golden
