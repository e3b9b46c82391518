#include "lockstep/harness/rounding/explain_results.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/formats/json_text.h"

namespace lockstep {
namespace {

constexpr float kBig = 16'777'216.0F;  // 2^24

std::vector<StoredTensor> tensor(const std::vector<float>& values, const std::string& name = "g") {
  StoredTensor stored{.name = name, .type = ElementType::kF32};
  stored.sizes = {static_cast<std::int64_t>(values.size())};
  stored.bytes.resize(values.size() * sizeof(float));
  std::memcpy(stored.bytes.data(), values.data(), stored.bytes.size());
  return {stored};
}

/// Three ranks; adding from rank 0 gives 2^24 in element 1, from rank 1 two more.
const std::vector<std::vector<StoredTensor>> kThree = {
    tensor({1, kBig}), tensor({2, 1}), tensor({3, 1})};

Explanation explained(const std::vector<float>& left,
                      const std::vector<float>& right,
                      const std::vector<std::vector<StoredTensor>>& contributions = kThree) {
  const auto result = explain_results(tensor(left), tensor(right), contributions, {});
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result.value();
}

TEST(ExplainResultsTest, TheSameBitsAreEqual) {
  EXPECT_EQ(explained({6, kBig}, {6, kBig}).verdict(), RoundingVerdict::kEqual);
  EXPECT_EQ(explained({1, 2}, {1, 2}, {}).verdict(), RoundingVerdict::kEqual);
}

TEST(ExplainResultsTest, TwoOrdersOfTheSameContributionsAreRounding) {
  const Explanation found = explained({6, kBig}, {6, kBig + 2});
  EXPECT_EQ(found.verdict(), RoundingVerdict::kNamedOrders);
  EXPECT_EQ(found.tensors[0].n_different, 1);
  EXPECT_EQ(found.tensors[0].ulps, 1U);
  EXPECT_EQ(explanation_text(found),
            "rounding: both are sums of these contributions in known orders\n"
            "g: named-orders (1 of 2 elements of float32 differ, most at element 1: 1 ulp)\n"
            "  first:  chain from rank 0, all elements\n"
            "  second: chain from rank 1, all elements\n");
}

// In f64 and rounded once: 2^24 + 2 * 0.75 is nearer to 2^24 + 2, which no chain or pair gives.
TEST(ExplainResultsTest, WhatLiesInsideWithoutAKnownOrderIsPossible) {
  const std::vector<std::vector<StoredTensor>> four = {
      tensor({kBig}), tensor({0.75F}), tensor({-kBig}), tensor({kBig})};
  const Explanation found = explained({kBig}, {kBig + 4}, four);
  EXPECT_EQ(found.verdict(), RoundingVerdict::kWithinBound) << explanation_text(found);
}

TEST(ExplainResultsTest, AContributionThatIsMissingIsImpossible) {
  const Explanation found = explained({6, kBig}, {3, kBig});
  EXPECT_EQ(found.verdict(), RoundingVerdict::kImpossible);
  ASSERT_TRUE(found.tensors[0].impossible.has_value());
  EXPECT_FALSE(found.tensors[0].impossible->is_left);
  EXPECT_EQ(found.tensors[0].impossible->element, 0);
  EXPECT_EQ(found.tensors[0].impossible->distance, 3.0);
  const std::string text = explanation_text(found);
  EXPECT_NE(
      text.find("element 0 of the second result is 3\n    the sum of 1, 2, 3\n    is 6 without "
                "rounding, 3 away from it\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("it is as if the contribution of rank 2 had been left out\n"),
            std::string::npos)
      << text;
}

TEST(ExplainResultsTest, AnInfiniteResultIsPossibleWhereASumMayOverflow) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto verdict = [&](float each, ResultKind kind) {
    const auto result = explain_results(
        tensor({each}), tensor({kInfinite}), {tensor({each}), tensor({each})}, {kind});
    EXPECT_TRUE(result.ok());
    return result.value().verdict();
  };
  // The mean of two large numbers: divided before they are added, or afterwards.
  EXPECT_NE(verdict(3e38F, ResultKind::kMean), RoundingVerdict::kImpossible);
  // This one does not overflow in f32, but where it is compressed to f16.
  EXPECT_EQ(verdict(1e38F, ResultKind::kMean), RoundingVerdict::kOnlyIf);
  EXPECT_EQ(verdict(1e4F, ResultKind::kMean), RoundingVerdict::kImpossible);
}

TEST(ExplainResultsTest, AResultThatBothHaveIsJudgedToo) {
  EXPECT_EQ(explained({7, kBig}, {7, kBig}).verdict(), RoundingVerdict::kImpossible);
}

TEST(ExplainResultsTest, WithoutContributionsADifferenceIsNotJudged) {
  const Explanation found = explained({1, 2}, {1, 2.5F}, {});
  EXPECT_EQ(found.verdict(), RoundingVerdict::kNotJudged);
  EXPECT_NE(explanation_text(found).find("--contributions RANK0 --contributions RANK1"),
            std::string::npos);
}

// Whatever the order: an infinity stays, unless it meets the other one or a NaN.
TEST(ExplainResultsTest, AContributionThatIsNotFiniteLeavesOneResult) {
  const auto verdict = [](float a, float b, float result) {
    const auto found = explain_results(
        tensor({result}), tensor({result}), {tensor({a}), tensor({b}), tensor({1})}, {});
    EXPECT_TRUE(found.ok());
    return found.value().verdict();
  };
  EXPECT_EQ(verdict(INFINITY, 1, INFINITY), RoundingVerdict::kEqual);
  EXPECT_EQ(verdict(-INFINITY, 1, -INFINITY), RoundingVerdict::kEqual);
  EXPECT_EQ(verdict(INFINITY, -INFINITY, NAN), RoundingVerdict::kEqual);
  EXPECT_EQ(verdict(NAN, 1, NAN), RoundingVerdict::kEqual);
  EXPECT_EQ(verdict(INFINITY, 1, 5), RoundingVerdict::kImpossible);
  EXPECT_EQ(verdict(INFINITY, 1, -INFINITY), RoundingVerdict::kImpossible);
  EXPECT_EQ(verdict(INFINITY, 1, NAN), RoundingVerdict::kImpossible);
  EXPECT_EQ(verdict(NAN, 1, 5), RoundingVerdict::kImpossible);
  EXPECT_EQ(verdict(INFINITY, -INFINITY, INFINITY), RoundingVerdict::kImpossible);
}

TEST(ExplainResultsTest, AnInfinityMayMeetTheOverflowOfTheOthers) {
  constexpr float kLarge = -3e38F;
  const auto found = explain_results(tensor({NAN}),
                                     tensor({INFINITY}),
                                     {tensor({INFINITY}), tensor({kLarge}), tensor({kLarge})},
                                     {});
  EXPECT_EQ(found.value().verdict(), RoundingVerdict::kNamedOrders);
}

TEST(ExplainResultsTest, ZerosOfBothSignsAreOneNumber) {
  const auto found =
      explain_results(tensor({0.0F}), tensor({-0.0F}), {tensor({-0.0F}), tensor({-0.0F})}, {});
  EXPECT_EQ(found.value().verdict(), RoundingVerdict::kEqual);
  EXPECT_TRUE(found.value().tensors[0].left->runs.has_value());
}

// A communication hook that compresses to 16 bits: its sums are bf16 numbers, near, and no f32 order's.
TEST(ExplainResultsTest, SumsInANarrowerTypeAreNamedAsSuch) {
  const std::vector<std::vector<StoredTensor>> parts = {tensor({1.001F, 3}), tensor({2.002F, 4})};
  const Explanation found = explained({3.001953125F, 7}, {3.003F, 7}, parts);
  EXPECT_EQ(found.verdict(), RoundingVerdict::kOnlyIf) << explanation_text(found);
  ASSERT_TRUE(found.tensors[0].left->only_if.has_value());
  EXPECT_EQ(*found.tensors[0].left->only_if, Unless::kInF16);
  EXPECT_FALSE(found.tensors[0].impossible.has_value());
  // The twin: one element beyond 16 bits, and one that 16 bits do not explain.
  EXPECT_EQ(explained({3.001953125F, 7.001F}, {3.003F, 7}, parts).verdict(),
            RoundingVerdict::kImpossible);
  EXPECT_EQ(explained({3.5F, 7}, {3.003F, 7}, parts).verdict(), RoundingVerdict::kImpossible);
}

TEST(ExplainResultsTest, TruncationIsNamedWhereRoundingToNearestIsNotEnough) {
  const std::vector<std::vector<StoredTensor>> parts = {tensor({kBig, 1.1F}), tensor({3.9F, 1.3F})};
  // 2^24 + 3.9 is nearest to 2^24 + 4; cut off it is 2^24 + 2.
  const Explanation found = explained({kBig + 4, 2.4F}, {kBig + 2, 2.4F}, parts);
  EXPECT_EQ(found.verdict(), RoundingVerdict::kOnlyIf) << explanation_text(found);
  EXPECT_EQ(*found.tensors[0].right->only_if, Unless::kNotNearest);
  EXPECT_EQ(explained({kBig + 4, 2.4F}, {kBig, 2.4F}, parts).verdict(),
            RoundingVerdict::kImpossible);
}

// In f16 the sum of 60000 and 60000 is infinite; with -60000 first it is not.
TEST(ExplainResultsTest, AnOrderMayOverflowWhereAnotherDoesNot) {
  const std::vector<std::vector<StoredTensor>> large = {
      tensor({3e38F}), tensor({3e38F}), tensor({-3e38F})};
  EXPECT_EQ(explained({INFINITY}, {3e38F}, large).verdict(), RoundingVerdict::kNamedOrders);
  EXPECT_EQ(explained({INFINITY, 1}, {6, kBig}).verdict(), RoundingVerdict::kImpossible);
}

TEST(ExplainResultsTest, FilesThatDoNotFitAreRefusedWithWhatDiffers) {
  const auto error = [](const std::vector<StoredTensor>& left,
                        const std::vector<StoredTensor>& right,
                        const std::vector<std::vector<StoredTensor>>& contributions) {
    const auto result = explain_results(left, right, contributions, {});
    return result.ok() ? std::string() : result.error().text();
  };
  EXPECT_EQ(error({}, {}, {}), "the first file: has no tensors");
  EXPECT_EQ(error(tensor({1}), tensor({1}, "h"), {}), "the first file: has no tensor 'h'");
  EXPECT_EQ(error(tensor({1}), {}, {}), "the second file: has no tensor 'g'");
  EXPECT_EQ(error(tensor({1}), tensor({1, 2}), {}),
            "the second file: tensor 'g' has 2 elements of float32 here, 1 of float32 in the first "
            "file");
  EXPECT_EQ(error(tensor({1}), tensor({1}), {tensor({1})}),
            "--contributions: a sum needs at least two contributions: give one file per rank");
  EXPECT_EQ(
      error(tensor({1}), tensor({1}), {tensor({1}), tensor({1, 2})}),
      "the contribution of rank 1: tensor 'g' has 2 elements of float32 here, 1 of float32 in "
      "the first file");
  std::vector<StoredTensor> whole = tensor({1});
  whole[0].type = ElementType::kI32;
  EXPECT_EQ(error(whole, whole, {}),
            "the first file: tensor 'g' is of int32; explained are float16, bfloat16, float32 and "
            "float64");
}

TEST(ExplainResultsTest, JsonHasTheVerdictAndTheRuns) {
  JsonText out;
  write_explanation(out, explained({6, kBig}, {6, kBig + 2}));
  const std::string json = out.str();
  EXPECT_TRUE(json.starts_with(
      R"({"lockstep_explain_diff":1,"verdict":"named-orders","contributions":3,"reduction":"sum",)"
      R"("factor":null,"tensors":[{"tensor":"g","verdict":"named-orders","type":"float32","elements":2,)"
      R"("different":1,"widest":1,"ulps":1,"first":{"runs":[{"shape":"chain","first":0,"mean":"",)"
      R"("begin":0,"end":2}],"outside":0,"worst":1,"ratio":0.99999)"))
      << json;
  EXPECT_TRUE(json.ends_with(
      R"("second":{"runs":[{"shape":"chain","first":1,"mean":"","begin":0,"end":2}],)"
      R"("outside":0,"worst":0,"ratio":0,"only_if":null},"impossible":null}]})"))
      << json;
}

}  // namespace
}  // namespace lockstep
