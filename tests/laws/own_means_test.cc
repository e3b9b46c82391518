// What a step used against what its ranks have added, tensor by tensor.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/laws/rules/detail/declared_mean.h"

namespace lockstep::laws {
namespace {

using Weighing = std::array<double, 3>;  // Of three ranks.

/// Steps of three ranks whose losses are means, and which reduce two tensors by themselves.
class OwnMeansTest : public ::testing::Test {
 protected:
  /// Each tensor is the ranks' sum with these weights.
  void step(const std::vector<Weighing>& tensors) {
    OwnReduction own;
    own.step = step_++;
    own.wrapper = {0, 0};
    own.dtype = DType::kF64;
    own.layout = own.used_layout = layout_;
    own.n_elems.assign(tensors.size(), 4);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      OwnReduction::Share& share = own.shares.emplace_back();
      share.rank = rank;
      share.from_nothing = share.of_mean = true;
      share.n_terms = n_terms_[static_cast<std::size_t>(rank)];
      share.divisor = divisors_[static_cast<std::size_t>(rank)];
      share.added.push_back(
          gradients(tensors, [rank](const Weighing& /*weights*/) { return one_hot(rank); }));
      KeptGradients nothing = share.added.front();
      for (Sketch& sketch : nothing.sketches) sketch = {};
      share.added.resize(n_backwards_, nothing);
      share.used = gradients(tensors, [](const Weighing& weights) { return weights; });
    }
    means_.judge(own, wrappers_, names_);
  }

  std::vector<Finding> findings() { return means_.take_findings(); }

  std::vector<Advice> advice() const { return means_.advice(); }

  Weighing n_terms_ = {8.0, 8.0, 8.0};
  Weighing divisors_ = {1.0, 1.0, 1.0};
  std::size_t n_backwards_ = 1;

 private:
  static Weighing one_hot(std::int32_t rank) {
    Weighing weights = {};
    weights[static_cast<std::size_t>(rank)] = 1.0;
    return weights;
  }

  /// Rank r's contribution is 1 in element r of four, and 0 elsewhere.
  template <typename F>
  static KeptGradients gradients(const std::vector<Weighing>& tensors, F weights_of) {
    KeptGradients kept;
    for (const Weighing& tensor : tensors) {
      const Weighing weights = weights_of(tensor);
      Sketch sketch;
      sketch.l1 = weights[0] + weights[1] + weights[2];
      sketch.sums = {weights[0], weights[1], weights[2], weights[0] - weights[1] + weights[2]};
      kept.sketches.push_back(sketch);
      kept.digests.push_back(static_cast<std::uint64_t>(1 + 100.0 * (weights[0] + 2 * weights[1])));
    }
    kept.undefined.assign(1, 0);
    return kept;
  }

  NameTable names_;
  std::array<NameId, 2> tensors_ = {names_.intern("embedding"), names_.intern("mix")};
  LayoutId layout_ = names_.intern_layout(tensors_);
  Wrappers wrappers_;
  OwnMeans means_{false};
  std::int32_t step_ = 0;
};

constexpr Weighing alike(double weight) { return {weight, weight, weight}; }

TEST_F(OwnMeansTest, RanksThatCountOtherwiseThanByTheirTermsGetAdvice) {
  for (int i = 0; i < 2; ++i) step({{0.25, 0.25, 0.5}, {0.25, 0.25, 0.5}});
  ASSERT_EQ(advice().size(), 1U);
  EXPECT_EQ(advice()[0].id, "A-weighed-ranks");
  EXPECT_EQ(advice()[0].message,
            "2 steps weighted the ranks unequally, and not in proportion to their loss terms "
            "(weights in step 0: 0.25, 0.25, 0.5). Average over ranks or over terms, unless these "
            "weights are intended.");
  EXPECT_TRUE(findings().empty());
}

TEST_F(OwnMeansTest, RanksMayCountByTheirTerms) {
  n_terms_ = {8.0, 8.0, 16.0};
  step({{0.25, 0.25, 0.5}, {0.25, 0.25, 0.5}});
  EXPECT_TRUE(advice().empty());
}

TEST_F(OwnMeansTest, WithoutNumbersOfTermsWeightsSayNothing) {
  for (const Weighing& n_terms : {Weighing{0.0, 8.0, 8.0}, Weighing{8.0, 8.0, 0.0}}) {
    n_terms_ = n_terms;
    step({{0.25, 0.25, 0.5}, {0.25, 0.25, 0.5}});
    EXPECT_TRUE(advice().empty());
  }
}

TEST_F(OwnMeansTest, WeightsOfFewStepsSayNothing) {
  step({{0.25, 0.25, 0.5}, {0.25, 0.25, 0.5}});
  step({alike(0.4), alike(0.4)});
  EXPECT_TRUE(advice().empty());
}

TEST_F(OwnMeansTest, ATensorThatIsSummedTwiceIsNamed) {
  for (const double usual : {1.0, 0.25}) {
    step({alike(3 * usual), alike(usual)});
  }
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1U) << "once per tensor";
  EXPECT_EQ(found[0].tensor, "embedding");
  EXPECT_EQ(found[0].step, 0);
  EXPECT_TRUE(found[0].message.starts_with(
      "the manually reduced gradient is 3 times too large (there are 3 ranks)"))
      << found[0].message;
}

TEST_F(OwnMeansTest, ATensorThatIsSummedTwiceIsNamedWhateverItsFactor) {
  step({alike(3 * 0.12345678), alike(0.12345678)});
  EXPECT_EQ(findings().size(), 1U);
}

TEST_F(OwnMeansTest, TensorsMayHaveOtherFactors) {
  step({alike(2.0), alike(1.0)});
  step({alike(0.9), alike(0.8)});
  step({{0.25, 0.5, 0.5}, alike(0.75)});
  step({alike(1e-7), alike(1.5e-7)});
  EXPECT_TRUE(findings().empty());
}

TEST_F(OwnMeansTest, SumsGetAdviceUnlessEachLossWasDividedByTheRanks) {
  step({alike(1.0), alike(1.0)});
  step({alike(1.0), alike(1.0)});
  ASSERT_EQ(advice().size(), 1U);
  EXPECT_EQ(advice()[0].message,
            "2 steps from step 0 on used the sum of the ranks' gradients, where DDP would use "
            "their mean. Divide by the number of ranks, unless each loss was divided by it.");
}

TEST_F(OwnMeansTest, SumsOfLossesThatWereDividedByTheRanksAreMeans) {
  divisors_ = alike(3.0);
  for (int i = 0; i < 2; ++i) step({alike(1.0), alike(1.0)});
  EXPECT_TRUE(advice().empty());
}

// One rank does not divide; as many backward passes as ranks may be what is divided by.
TEST_F(OwnMeansTest, AllRanksDivideByTheirNumberAndByNothingElse) {
  divisors_ = {3.0, 1.0, 3.0};
  step({alike(1.0), alike(1.0)});
  divisors_ = alike(3.0);
  n_backwards_ = 3;
  step({alike(1.0), alike(1.0)});
  n_backwards_ = 2;
  step({alike(1.0), alike(1.0)});
  ASSERT_EQ(advice().size(), 1U);
  EXPECT_TRUE(advice()[0].message.starts_with("2 steps from step 0 on"));
}

TEST_F(OwnMeansTest, MeansOfLossesThatWereDividedByTheRanksGetAdvice) {
  divisors_ = alike(3.0);
  step({alike(1.0 / 3), alike(1.0 / 3)});
  EXPECT_TRUE(advice().empty()) << "one step shows no habit";
  step({alike(1.0 / 3), alike(1.0 / 3)});
  ASSERT_EQ(advice().size(), 1U);
  EXPECT_EQ(advice()[0].id, "A-divided-again");
  EXPECT_EQ(advice()[0].message,
            "2 steps divided by the number of ranks twice: in the losses, and in the mean of the "
            "gradients. Divide once.");
  divisors_ = alike(1.0);
  step({alike(1.0 / 3), alike(1.0 / 3)});
  EXPECT_TRUE(advice().empty());
}

}  // namespace
}  // namespace lockstep::laws
