#include "lockstep/data/text.h"

#include <gtest/gtest.h>

#include "tests/data/fake_host.h"

namespace lockstep::data {
namespace {

std::vector<double> values_in(std::span<const double> values) {
  return {values.begin(), values.end()};
}

TEST(TextTest, ATokenIsAPlaceAmongTheDifferentBytes) {
  EXPECT_EQ(characters_of("banana\n"), "\nabn");
  EXPECT_EQ(characters_of("\xc3z"), "z\xc3");  // Bytes, not signed characters.
  EXPECT_EQ(characters_of(""), "");
}

// "abac" = 0 1 0 2, blocks of two.
TEST(TextTest, TheTargetOfABlockIsTheTextOneCharacterLater) {
  const Result<Dataset> made = make_text("abac", "note", 2);
  ASSERT_TRUE(made.ok());
  const Dataset& blocks = made.value();

  EXPECT_EQ(blocks.size(), 2);
  EXPECT_EQ(values_in(blocks.features(0)), (std::vector<double>{0, 1}));
  EXPECT_EQ(values_in(blocks.targets(0)), (std::vector<double>{1, 0}));
  EXPECT_EQ(values_in(blocks.features(1)), (std::vector<double>{1, 0}));
  EXPECT_EQ(values_in(blocks.targets(1)), (std::vector<double>{0, 2}));
}

TEST(TextTest, ATextWithoutANextCharacterIsRefused) {
  EXPECT_EQ(make_text("ab", "note", 2).error().text(),
            "note: a text of 2 characters has no block of 2 and a next character");
  EXPECT_FALSE(make_text("ab", "note", 0).ok());
  EXPECT_TRUE(make_text("abc", "note", 2).ok());
}

TEST(TextTest, AFileIsReadByteByByte) {
  MemoryFiles files;
  ASSERT_TRUE(files.publish("a.txt", "x\r\ny").ok());

  const Result<Dataset> loaded = load_text(files, "a.txt", 3);

  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(values_in(loaded.value().targets(0)), (std::vector<double>{1, 0, 3}));
  EXPECT_FALSE(load_text(files, "b.txt", 3).ok());
}

}  // namespace
}  // namespace lockstep::data
