#include "tests/tidy/class_rules.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::size_t private_members_of(const std::string& text) {
  const std::vector<ClassSize> sizes = classes_in({"a.h", text});
  EXPECT_EQ(sizes.size(), 1U);
  return sizes.front().n_private;
}

TEST(ClassRulesTest, ClassesOfTheProductKeepAtMost25MembersToThemselves) {
  std::vector<File> files = files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cc", ".cu", ".cuh"});
  std::erase_if(files, [](const File& file) {
    return file.path.starts_with("tests/") || file.path.starts_with("bench/");
  });
  ASSERT_FALSE(files.empty());
  EXPECT_THAT(too_many_members(files, {}), IsEmpty());
}

TEST(ClassRulesTest, FieldsAndPrivateFunctionsCount) {
  EXPECT_EQ(
      private_members_of("class A {\n public:\n  int shown() const;\n  int f = 0;\n private:\n"
                         "  void g();\n  int h() { return 1; }\n  std::vector<int> a_;\n"
                         "  std::function<void(int)> b_ = {};\n  int c_[2] = {1, 2};\n};"),
      5U);
}

TEST(ClassRulesTest, AClassBeginsPrivateAndAStructPublic) {
  EXPECT_EQ(private_members_of("class A {\n  int a_;\n};"), 1U);
  EXPECT_EQ(private_members_of("struct A {\n  int a;\n private:\n  int b_;\n};"), 1U);
  EXPECT_EQ(private_members_of("class alignas(64) A final : public B {\n  int a_;\n};"), 1U);
}

TEST(ClassRulesTest, ConstructorsTypesFriendsAndDeletedFunctionsDoNotCount) {
  EXPECT_EQ(private_members_of("class A {\n  A();\n  explicit A(int a) : a_(a) {}\n  ~A();\n"
                               "  A(const A&) = delete;\n  using B = int;\n  friend class C;\n"
                               "  enum D { e, f };\n  static_assert(true);\n};"),
            0U);
}

TEST(ClassRulesTest, CommentsAndTextsAreNotRead) {
  EXPECT_EQ(private_members_of("class A {\n  // int a_;\n  std::string b_ = \"int c; }\";\n"
                               "  char d_ = '}';\n};"),
            2U);
}

TEST(ClassRulesTest, ANestedClassIsCountedByItself) {
  const std::vector<ClassSize> sizes =
      classes_in({"a.h",
                  "class A {\n  struct B {\n    int c;\n   private:\n    int d_;\n  };\n"
                  "  B b_;\n  int e_;\n};"});
  ASSERT_EQ(sizes.size(), 2U);
  EXPECT_EQ(sizes[0].name, "A");
  EXPECT_EQ(sizes[0].n_private, 2U);
  EXPECT_EQ(sizes[1].name, "B");
  EXPECT_EQ(sizes[1].line, 2U);
  EXPECT_EQ(sizes[1].n_private, 1U);
}

TEST(ClassRulesTest, ALargeClassIsReportedAndAnExceptionOnlyWhereItIsNeeded) {
  std::string text = "class Large {\n";
  for (int i = 0; i < 26; ++i) text += "  int a" + std::to_string(i) + "_;\n";
  const std::vector<File> files = {{"a.h", text + "};"}};
  EXPECT_THAT(
      too_many_members(files, {}),
      ElementsAre("a.h:1: Large has 26 private members, and may have 25: split it by what it "
                  "holds"));
  EXPECT_THAT(too_many_members(files, {{"Large", 26}}), IsEmpty());
  EXPECT_THAT(too_many_members(files, {{"Large", 26}, {"Small", 30}}),
              ElementsAre("Small has at most 25 private members: it needs no exception"));
}

}  // namespace
}  // namespace lockstep::tidy
