#include "lockstep/base/disk_files.h"

#include <gmock/gmock.h>

#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DiskFiles, PublishListRenameAndRemove) {
  const testing::TempFolder temp;
  const std::string folder = temp.path() + "/a/b";
  DiskFiles files;
  EXPECT_THAT(files.list(folder).value(), IsEmpty());
  ASSERT_TRUE(files.make_folder(folder).ok());
  ASSERT_TRUE(files.make_folder(folder).ok());
  ASSERT_TRUE(files.publish(folder + "/y", "one").ok());
  ASSERT_TRUE(files.publish(folder + "/y", "two").ok());
  ASSERT_TRUE(files.write(folder + "/x", "three").ok());
  ASSERT_TRUE(files.sync(folder + "/x").ok());
  EXPECT_THAT(files.list(folder).value(), ElementsAre("x", "y"));
  EXPECT_EQ(files.read(folder + "/y").value(), "two");
  ASSERT_TRUE(files.rename(folder + "/x", folder + "/y").ok());
  EXPECT_EQ(files.read(folder + "/y").value(), "three");
  ASSERT_TRUE(files.remove(folder + "/y").ok());
  EXPECT_THAT(files.list(folder).value(), IsEmpty());
}

TEST(DiskFiles, SayWhatDidNotWork) {
  const testing::TempFolder temp;
  DiskFiles files;
  const std::string missing = temp.path() + "/missing/x";
  EXPECT_FALSE(files.write(missing, "x").ok());
  EXPECT_FALSE(files.publish(missing, "x").ok());
  EXPECT_FALSE(files.sync(missing).ok());
  EXPECT_FALSE(files.rename(missing, temp.path() + "/y").ok());
  EXPECT_EQ(files.remove(missing).error().message, "no such file");
  EXPECT_FALSE(files.read(temp.path()).ok());
}

}  // namespace
}  // namespace lockstep
