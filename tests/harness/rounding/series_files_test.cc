#include "lockstep/harness/rounding/series_files.h"

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Two floats as a .npy array.
void write_array(const fs::path& path, float first, float second) {
  fs::create_directories(path.parent_path());
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
  for (const float value : {first, second}) {
    file.write(std::bit_cast<std::array<char, 4>>(value).data(), 4);
  }
}

class SeriesFilesTest : public ::testing::Test {
 protected:
  std::string side(const std::string& name) const {
    return (fs::path(folder_.path()) / name).string();
  }

  fs::path at(const std::string& name, const std::string& file) const {
    return fs::path(folder_.path()) / name / file;
  }

  std::string error() const {
    const auto steps = compare_series(side("a"), side("b"));
    return steps.ok() ? std::string() : steps.error().text();
  }

 private:
  testing::TempFolder folder_;
};

// Step 10 comes after step 9, as numbers and not as names do; what has no number or no twin is left out.
TEST_F(SeriesFilesTest, StepsAreTheNumbersInNames) {
  for (const std::string name : {"a", "b"}) {
    write_array(at(name, "step-9.npy"), 1, 2);
    write_array(at(name, "step-10.npy"), 1, name == "a" ? 2.0F : 2.0000002F);
    write_array(at(name, "last.npy"), 5, name == "a" ? 6.0F : 7.0F);
  }
  write_array(at("a", "step-11.npy"), 1, 2);
  const auto steps = compare_series(side("a"), side("b"));
  ASSERT_TRUE(steps.ok()) << steps.error().text();
  ASSERT_EQ(steps.value().size(), 2U);
  EXPECT_EQ(steps.value()[0].step, 9);
  EXPECT_EQ(steps.value()[0].n_different, 0);
  EXPECT_EQ(steps.value()[1].step, 10);
  EXPECT_EQ(steps.value()[1].ulps, 1U);
  EXPECT_EQ(steps.value()[1].tensor, "array");
  EXPECT_EQ(steps.value()[1].element, 1);
}

TEST_F(SeriesFilesTest, AStepMayBeAFolderOfFiles) {
  for (const std::string name : {"a", "b"}) {
    write_array(at(name, "step-1/model.npy"), 1, 2);
    write_array(at(name, "step-1/optimizer.npy"), 3, name == "a" ? 4.0F : 8.0F);
  }
  const auto steps = compare_series(side("a"), side("b"));
  ASSERT_TRUE(steps.ok()) << steps.error().text();
  EXPECT_EQ(steps.value()[0].n_elements, 4);
  EXPECT_EQ(steps.value()[0].tensor, "optimizer.npy:array");
}

TEST_F(SeriesFilesTest, FoldersWithoutAStepInCommonAreRefused) {
  write_array(at("a", "step-1.npy"), 1, 2);
  write_array(at("b", "step-2.npy"), 1, 2);
  EXPECT_NE(error().find("has no step in common with"), std::string::npos) << error();
}

TEST_F(SeriesFilesTest, AFileThatOneSideLacksIsNamed) {
  write_array(at("a", "step-1/model.npy"), 1, 2);
  write_array(at("b", "step-1/weights.npy"), 1, 2);
  EXPECT_NE(error().find("has no file for step 1 like"), std::string::npos) << error();
}

}  // namespace
}  // namespace lockstep
