#include "lockstep/gpu/nccl/library/version.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace lockstep::nccl {
namespace {

TEST(VersionTest, CodesAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(version_text(22809), "2.28.9");
  EXPECT_EQ(version_text(2804), "2.8.4");
  EXPECT_EQ(version_text(21005), "2.10.5");
}

TEST(VersionTest, TheLibraryAnswersWithoutADevice) {
  const Versions found = versions();

  EXPECT_GE(found.library, 20000);
  EXPECT_EQ(mismatch(found), std::nullopt);
}

TEST(VersionTest, ANewerLibraryServesAnOlderHeader) {
  EXPECT_EQ(mismatch({.header = 22809, .library = 22809}), std::nullopt);
  EXPECT_EQ(mismatch({.header = 22809, .library = 23007}), std::nullopt);
}

TEST(VersionTest, AnOlderLibraryIsNamed) {
  EXPECT_EQ(mismatch({.header = 22809, .library = 21805}),
            "compiled against NCCL 2.28.9, but the library found is 2.18.5, which is older");
}

TEST(VersionTest, AnotherMajorVersionIsNamed) {
  EXPECT_THAT(mismatch({.header = 22809, .library = 30000}).value_or(""),
              ::testing::EndsWith("3.0.0, which has another interface"));
}

}  // namespace
}  // namespace lockstep::nccl
