// The rules about declarations, applied to the whole tree and each shown one that breaks it.
#include "tests/tidy/declaration_rules.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Declarations that something names which is not C++, and what it is.
const std::map<std::string, std::string> kNamedElsewhere = {
    {"open_cuda_device", "the table of backends that CMake writes"},
    {"obstacle_to_gloo", "the table of backends that CMake writes"},
    {"do_allocate", "std::pmr::memory_resource"},
    {"do_deallocate", "std::pmr::memory_resource"},
    {"do_is_equal", "std::pmr::memory_resource"},
};

TEST(DeclarationRulesTest, FieldsStandOnOneLine) {
  for (const File& header : files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cuh"})) {
    for (const std::string& complaint : torn_fields(header)) ADD_FAILURE() << complaint;
  }
}

TEST(DeclarationRulesTest, EverythingDeclaredIsUsed) {
  const std::vector<File> files = files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cc", ".cuh", ".cu"});
  ASSERT_FALSE(files.empty());
  for (const std::string& complaint : dead_declarations(files, kNamedElsewhere)) {
    ADD_FAILURE() << complaint;
  }
}

TEST(DeclarationRulesTest, ATornFieldIsReported) {
  const File header{"src/a.h",
                    "struct A {\n"
                    "  int count =\n"
                    "      0;  ///< Elements.\n"
                    "  const int n =\n"
                    "      first + second;\n"
                    "};\n"};

  EXPECT_THAT(torn_fields(header), ElementsAre("src/a.h:2: write the field's comment above it"));
}

TEST(DeclarationRulesTest, AFunctionThatIsOnlyDefinedIsReported) {
  const File header{"src/a.h", "Result<int> dead(int a);\nconst A& alive();\nint* nested();\n"};
  const File source{"src/a.cc",
                    "Result<int> dead(int a) { return a; }  // dead(1)\n"
                    "const A& lockstep::alive() { return *new A(\"dead()\"); }\n"
                    "int n = *lockstep::alive() && nested();\n"};

  EXPECT_THAT(dead_declarations({header, source}, {}),
              ElementsAre("src/a.h:1: nothing names dead but its declaration; remove it"));
}

TEST(DeclarationRulesTest, AMethodThatIsOnlyOverriddenIsReported) {
  const File header{"src/a.h", "class A {\n  virtual bool redundant() const = 0;\n};\n"};
  const File source{"src/a.cc",
                    "class B : public A {\n"
                    "  bool redundant() const override { return true; }\n"
                    "};\n"
                    "B b;\n"};
  const File test{"tests/a_test.cc", "bool x = b->redundant();\n"};

  EXPECT_THAT(dead_declarations({header, source}, {}),
              ElementsAre("src/a.h:2: nothing names redundant but its declaration; remove it"));
  EXPECT_THAT(dead_declarations({header, source, test}, {}), IsEmpty());
}

TEST(DeclarationRulesTest, ATypeThatOnlyItsOwnBodyNamesIsReported) {
  const File header{"src/a.h",
                    "class Dead {\n public:\n  Dead(const Dead&) = delete;\n  void f();\n};\n"
                    "struct Alive;\n"};
  const File source{
      "src/a.cc",
      "void Dead::f() {}\nDead::Dead() { f(); }\nDead::~Dead() {}\nstd::set<Alive> s(1);\n"};

  EXPECT_THAT(dead_declarations({header, source}, {}),
              ElementsAre("src/a.h:1: nothing names Dead but its declaration; remove it"));
}

TEST(DeclarationRulesTest, UnusedEnumeratorsConstantsAndFieldsAreReported) {
  const File header{"src/a.h",
                    "enum class Kind : int { kUsed, kDead = 2 };\n"
                    "inline constexpr int kUnread = 3;\n"
                    "struct B {\n  Kind kind = Kind::kUsed;\n  int unread_ = 0;\n};\n"};
  const File source{"src/a.cc", "bool f(B b) { return b.kind == 1; }\nbool g = f({});\n"};

  EXPECT_THAT(dead_declarations({header, source}, {}),
              ElementsAre("src/a.h:1: nothing names kDead but its declaration; remove it",
                          "src/a.h:2: nothing names kUnread but its declaration; remove it",
                          "src/a.h:5: nothing names unread_ but its declaration; remove it"));
}

TEST(DeclarationRulesTest, AnExceptionIsDeclaredAndUnused) {
  const File header{"src/a.h", "void named_by_cmake();\nvoid used();\n"};
  const File source{"src/a.cc", "int main() { used(); }\n"};

  EXPECT_THAT(dead_declarations({header, source}, {{"named_by_cmake", "CMake"}}), IsEmpty());
  EXPECT_THAT(dead_declarations({header, source}, {{"named_by_cmake", "CMake"}, {"used", "CMake"}}),
              ElementsAre("used needs no exception (CMake)"));
}

TEST(DeclarationRulesTest, HeadersOfTestsMayDeclareWhatTheyLike) {
  EXPECT_THAT(dead_declarations({{"tests/support/a.h", "void unused();\n"}}, {}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::tidy
