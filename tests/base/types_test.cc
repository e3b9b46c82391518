#include "lockstep/base/types.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();

TEST(TimesTest, SumsAndDifferencesStopAtTheEndsOfTheRange) {
  EXPECT_EQ((VirtualTime{kLast} + Duration{kLast}).ns, kLast);
  EXPECT_EQ((VirtualTime{kFirst} + Duration{-1}).ns, kFirst);
  EXPECT_EQ((VirtualTime{kLast} - VirtualTime{kFirst}).ns, kLast);
  EXPECT_EQ((VirtualTime{kFirst} - VirtualTime{1}).ns, kFirst);
  EXPECT_EQ((VirtualTime{7} + Duration{-9}).ns, -2);
  EXPECT_EQ((VirtualTime{7} - VirtualTime{9}).ns, -2);
}

}  // namespace
}  // namespace lockstep
