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
