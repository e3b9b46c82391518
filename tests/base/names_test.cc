#include "lockstep/base/names.h"

#include <array>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(NameTableTest, EqualTextsShareOneId) {
  NameTable names;

  const NameId weight = names.intern("weight");

  EXPECT_EQ(names.intern(std::string("wei") + "ght"), weight);
  EXPECT_NE(names.intern("bias"), weight);
  EXPECT_EQ(names.text(weight), "weight");
}

TEST(NameTableTest, TheEmptyNameIsAlwaysThere) {
  NameTable names;

  EXPECT_EQ(names.intern(""), kNoName);
  EXPECT_EQ(names.intern_layout({}), kNoLayout);
  EXPECT_TRUE(names.layout(kNoLayout).empty());
}

TEST(NameTableTest, TextsStayWhereTheyAreWhileTheTableGrows) {
  NameTable names;
  const std::string_view first = names.text(names.intern("first"));

  for (int i = 0; i < 10000; ++i) names.intern("name " + std::to_string(i));

  EXPECT_EQ(first.data(), names.text(names.intern("first")).data());
}

TEST(NameTableTest, TextsEndWithAZeroByteAlsoWhereLongerOnesHaveBeen) {
  NameTable names;
  names.intern("a name that is longer");
  names.clear();

  EXPECT_STREQ(names.text(names.intern("save.py")).data(), "save.py");
  EXPECT_STREQ(names.text(names.intern(std::string_view("train.py", 5))).data(), "train");
  EXPECT_STREQ(names.text(kNoName).data(), "");
}

TEST(NameTableTest, AClearedTableNumbersFromTheStartAndKnowsNothingOfBefore) {
  NameTable names;
  const NameId first = names.intern("first");
  const std::array<NameId, 2> list = {first, names.intern("second")};
  const LayoutId layout = names.intern_layout(list);
  const char* const place = names.text(first).data();

  names.clear();

  EXPECT_EQ(names.size(), 1U);
  EXPECT_EQ(names.intern(""), kNoName);
  EXPECT_TRUE(names.layout(kNoLayout).empty());
  const NameId other = names.intern("other");
  EXPECT_EQ(other, first);
  EXPECT_EQ(names.text(other), "other");
  EXPECT_EQ(names.text(other).data(), place);  // In the memory of before.
  EXPECT_EQ(names.intern_layout(std::array{other}), layout);
  EXPECT_EQ(names.layout(layout).size(), 1U);
}

TEST(NameTableTest, LayoutsAreListsInOrder) {
  NameTable names;
  const std::array<NameId, 2> forwards = {names.intern("a"), names.intern("b")};
  const std::array<NameId, 2> backwards = {forwards[1], forwards[0]};

  const LayoutId layout = names.intern_layout(forwards);

  EXPECT_EQ(names.intern_layout(forwards), layout);
  EXPECT_NE(names.intern_layout(backwards), layout);
  EXPECT_EQ(names.text(names.layout(layout)[1]), "b");
}

}  // namespace
}  // namespace lockstep
