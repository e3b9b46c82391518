#include "lockstep/base/check.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CheckTest, AKeptContractIsEvaluatedOnceAndSilent) {
  int n_evaluated = 0;
  EXPECT_NO_THROW(LOCKSTEP_CHECK(++n_evaluated > 0, "never shown"));
  EXPECT_EQ(n_evaluated, 1);
}

TEST(CheckTest, ABrokenContractNamesPlaceMessageAndCondition) {
  try {
    const int n_ranks = 0;
    LOCKSTEP_CHECK(n_ranks > 0, "a world has at least one rank");
    FAIL() << "the check let a broken contract pass";
  } catch (const ContractViolation& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("tests/base/check_test.cc:"), std::string::npos) << text;
    EXPECT_EQ(text.find(LOCKSTEP_SOURCE_DIR), std::string::npos) << "no build path: " << text;
    EXPECT_NE(text.find(": a world has at least one rank (required: n_ranks > 0)"),
              std::string::npos)
        << text;
  }
}

TEST(CheckTest, TheMessageIsBuiltOnlyOnFailure) {
  int n_built = 0;
  const auto message = [&] {
    ++n_built;
    return std::string("built");
  };

  LOCKSTEP_CHECK(true, message());
  EXPECT_EQ(n_built, 0);
  EXPECT_THROW(LOCKSTEP_CHECK(false, message()), ContractViolation);
  EXPECT_EQ(n_built, 1);
}

}  // namespace
}  // namespace lockstep
