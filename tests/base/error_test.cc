#include "lockstep/base/error.h"

#include <memory>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error{"an odd number has no half", "numbers.txt:3"};
  return number / 2;
}

TEST(ErrorTest, AResultCarriesTheValueOrTheReason) {
  EXPECT_TRUE(half_of(4).ok());
  EXPECT_EQ(half_of(4).value(), 2);
  EXPECT_FALSE(half_of(3).ok());
  EXPECT_EQ(half_of(3).error().message, "an odd number has no half");
}

TEST(ErrorTest, TheTextNamesThePlaceWhenThereIsOne) {
  EXPECT_EQ(half_of(3).error().text(), "numbers.txt:3: an odd number has no half");
  EXPECT_EQ((Error{"no ranks", ""}).text(), "no ranks");
}

TEST(ErrorTest, AskingForTheOtherSideThrows) {
  try {
    static_cast<void>(half_of(3).value());
    FAIL() << "half of 3";
  } catch (const ContractViolation& error) {
    EXPECT_EQ(std::string(error.what()).find("numbers.txt:3: an odd number has no half (value()"),
              0U);
  }
  EXPECT_THROW(static_cast<void>(half_of(4).error()), std::bad_variant_access);
}

TEST(ErrorTest, ValuesThatOnlyMoveCanBeTaken) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));

  const std::unique_ptr<int> taken = std::move(result).value();

  EXPECT_EQ(*taken, 5);
}

TEST(ErrorTest, AnOutcomeIsSuccessOrAnError) {
  EXPECT_TRUE(success().ok());
  EXPECT_FALSE(Outcome(Error{"disk full", ""}).ok());
}

}  // namespace
}  // namespace lockstep
