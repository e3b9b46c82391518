#include "lockstep/harness/scenario/call_sites.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CallSitesTest, ASiteIsAFileAndALineOfIt) {
  const auto site = parse_site("C:/a b/train.py:40");
  ASSERT_TRUE(site);
  EXPECT_EQ(site->file, "C:/a b/train.py");
  EXPECT_EQ(site->line, 40);
  EXPECT_TRUE(parse_site("a:1"));
  EXPECT_TRUE(parse_site("a:1000000000"));
}

TEST(CallSitesTest, ATextWithoutAFileOrALineIsNoSite) {
  for (const char* const text :
       {"", "a", ":", ":1", "a:", "a:b", "a:1b", "a:0", "a:-1", "a:1000000001"}) {
    EXPECT_FALSE(parse_site(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
