#include "lockstep/harness/rounding/suspicion.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const Arithmetic kSingle{*FloatFormat::of(ElementType::kF32)};
const std::vector<std::vector<double>> kElements = {{1, 20, 300}, {7, -3, 0.5}, {0.25, 8, -2}};

/// What is suspected of results that `wrong` makes of each element's contributions.
template <typename Wrong>
std::string suspected(const Combination& combination, const Wrong& wrong) {
  Suspicion suspicion(3, kSingle, combination);
  for (const std::vector<double>& x : kElements) suspicion.add(x, wrong(x));
  return suspicion.text();
}

TEST(SuspicionTest, NamesTheRankThatIsMissingOrThereTwice) {
  EXPECT_EQ(suspected({}, [](const auto& x) { return x[0] + x[2]; }),
            "as if the contribution of rank 1 had been left out");
  EXPECT_EQ(suspected({}, [](const auto& x) { return x[0] + x[1] + 2 * x[2]; }),
            "as if the contribution of rank 2 had been added twice");
  EXPECT_EQ(suspected({ResultKind::kMean},
                      [](const auto& x) {
                        return static_cast<double>(static_cast<float>((x[1] + x[2]) / 3));
                      }),
            "as if the contribution of rank 0 had been left out");
}

TEST(SuspicionTest, NamesAFactorThatAllElementsHave) {
  EXPECT_EQ(suspected({}, [](const auto& x) { return 0.5 * (x[0] + x[1] + x[2]); }),
            "as if it had been multiplied by 0.5");
  EXPECT_EQ(suspected({}, [](const auto& x) { return -(x[0] + x[1] + x[2]); }),
            "as if it had been multiplied by -1");
  EXPECT_EQ(suspected({},
                      [](const auto& x) {
                        return static_cast<double>(static_cast<float>((x[0] + x[1] + x[2]) / 3));
                      }),
            "as if it were the mean, not the sum (--mean)");
  EXPECT_EQ(suspected({ResultKind::kMean}, [](const auto& x) { return x[0] + x[1] + x[2]; }),
            "as if it were the sum, not the mean");
}

TEST(SuspicionTest, SaysNothingWhereNothingOrMoreThanOneThingFits) {
  EXPECT_EQ(suspected({}, [](const auto& x) { return x[0] * x[1]; }), "");
  Suspicion alike(3, kSingle, {});
  alike.add(std::vector<double>{5, 5, 1}, 6);  // Either of two ranks may be missing.
  EXPECT_EQ(alike.text(), "");
  Suspicion one(3, kSingle, {});
  one.add(std::vector<double>{5, 3, 1}, 6);  // One element always has a factor, which says nothing.
  EXPECT_EQ(one.text(), "as if the contribution of rank 1 had been left out");
}

}  // namespace
}  // namespace lockstep
