#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/base/disk_files.h"

#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

TEST(ReadFileTest, ReturnsEveryByte) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  for (const std::size_t size : {0U, 1U, 65535U, 65536U, 65537U, 200000U}) {
    std::string bytes(size, 'x');
    if (size > 1) bytes[size / 2] = '\0';
    std::ofstream(path, std::ios::binary) << bytes;

    const Result<std::string> read = read_file(path);

    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(read.value(), bytes);
  }
}

TEST(ReadFileTest, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(read_file("nowhere/at_all").error().text(),
            "nowhere/at_all: cannot read this file: No such file or directory");
  const testing::TempFolder folder;
  EXPECT_EQ(read_file(folder.path()).error().message, "this is a folder, not a file");
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "text";
  EXPECT_EQ(read_file(path + "/below").error().message, "cannot read this file: Not a directory");
}

}  // namespace
}  // namespace lockstep
