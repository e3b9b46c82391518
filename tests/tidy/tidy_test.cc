// The house rules, applied to every file; and each rule shown a file that breaks it, since a
// checker is trusted only after it was seen to fire.
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::set<std::string> kCode = {".h", ".cc", ".cu", ".cuh"};
const std::set<std::string> kEverything = {
    ".h", ".cc", ".cu", ".cuh", ".py", ".cmake", ".toml", ".md", ".txt", ".sh"};

std::vector<File> sources(const std::set<std::string>& suffixes) {
  return files_under(LOCKSTEP_SOURCE_DIR, suffixes);
}

/// The compile commands, and what the units among them include that stand for several files.
std::string compile_commands() {
  constexpr std::string_view kFile = "\"file\": \"";
  std::ifstream commands(LOCKSTEP_BINARY_DIR "/compile_commands.json");
  std::ostringstream text;
  for (std::string line; std::getline(commands, line);) {
    text << line << '\n';
    const std::size_t begin = line.find(kFile);
    if (begin == std::string::npos || line.find("/Unity/unity_", begin) == std::string::npos) {
      continue;
    }
    const std::size_t path = begin + kFile.size();
    text << std::ifstream(line.substr(path, line.find('"', path) - path)).rdbuf() << '\n';
  }
  return text.str();
}

template <typename Rule>
void expect_no_complaints(const std::vector<File>& files, Rule rule) {
  ASSERT_FALSE(files.empty());
  for (const File& file : files) {
    for (const std::string& complaint : rule(file)) ADD_FAILURE() << complaint;
  }
}

TEST(TidyTest, DeterministicRoomsUseNothingFromTheBanList) {
  expect_no_complaints(sources(kCode), banned_words);
}

TEST(TidyTest, LibrariesStayInTheirRooms) {
  expect_no_complaints(sources(kCode), forbidden_includes);
}

TEST(TidyTest, NoFileIsLongerThanFiveHundredLines) {
  expect_no_complaints(sources({".h", ".cc", ".cu", ".cuh", ".py", ".cmake"}), too_long);
}

TEST(TidyTest, FilesAreNamedAfterTheirConcept) {
  expect_no_complaints(sources(kEverything), vague_name);
}

TEST(TidyTest, NothingIsLeftUnfinished) {
  expect_no_complaints(sources(kEverything), unfinished_notes);
}

TEST(TidyTest, HeadersAreGuardedAndBackendsAreFolders) {
  expect_no_complaints(sources(kCode), preprocessor_habits);
}

TEST(TidyTest, EverySourceIsBuilt) {
  const std::string commands = compile_commands();
  ASSERT_THAT(commands, HasSubstr("tests/tidy/tidy_test.cc"));
  expect_no_complaints(sources(kCode), [&](const File& file) { return not_built(file, commands); });
}

TEST(TidyTest, TypesOfOneNamespaceHaveDifferentNames) {
  std::vector<File> headers = sources({".h", ".cuh"});
  std::erase_if(headers, [](const File& file) { return file.path.starts_with("tests/"); });
  ASSERT_FALSE(headers.empty());
  EXPECT_THAT(twice_defined_types(headers), IsEmpty());
}

TEST(TidyTest, TestsThatDocumentsNameExist) {
  const std::set<std::string> known = test_names(sources({".cc"}));
  ASSERT_TRUE(known.contains("TidyTest.TestsThatDocumentsNameExist"));
  for (const File& file : sources({".md"})) {
    if (file.path != "docs/contract.md" && file.path != "docs/conformance.md") continue;
    for (const std::string& complaint : unknown_tests(file, known)) ADD_FAILURE() << complaint;
  }
}

TEST(TidyRuleTest, AnUnknownTestIsReported) {
  const std::set<std::string> known =
      test_names({{"tests/a_test.cc", "TEST(ATest, Holds) {}\nTEST_F(ATest, Ends) {}\n"},
                  {"tests/conformance/b.cc", "{\"Broadcasts\", broadcasts},\n"}});

  EXPECT_THAT(
      unknown_tests(
          {"d.md", "| D1 | `Reducer` | `ATest`, `.Ends`, `Broadcasts` |\n| D2 | `No` |\n"}, known),
      IsEmpty());
  EXPECT_THAT(
      unknown_tests({"d.md", "\n| D1 | b | `ATest.Hold`, `.Ends` |\n| D2 | b | `.Ends` |\n"},
                    known),
      ElementsAre("d.md:2: no test is called ATest.Hold", "d.md:3: no test is called .Ends"));
}

TEST(TidyRuleTest, ATypeThatTwoHeadersDefineIsReported) {
  const File a{"a/a.h", "namespace lockstep {\nstruct Step {\n  int n = 0;\n};\n}\n"};
  const File b{"b/b.h", "namespace lockstep {\nclass Step final : public Base {\n};\n}\n"};
  const File other{"c/c.h", "namespace lockstep::laws {\nstruct Step {\n};\n}\n"};
  const File declares{"d/d.h", "namespace lockstep {\nstruct Step;\n}\n"};

  EXPECT_THAT(twice_defined_types({a, other, declares}), IsEmpty());
  EXPECT_THAT(twice_defined_types({a, b}),
              ElementsAre("b/b.h: lockstep::Step is defined in a/a.h too; the program would have "
                          "two types of one name"));
}

TEST(TidyRuleTest, ABannedWordIsReportedWithItsLineAndReplacement) {
  const File file = {"src/data/order.cc",
                     "// Not unordered_map.\nstd::unordered_map<int, int> m;\n"};

  EXPECT_THAT(
      banned_words(file),
      ElementsAre("src/data/order.cc:2: unordered_ is banned, use std::map or a sorted vector"));
}

TEST(TidyRuleTest, BansApplyOnlyInDeterministicRooms) {
  EXPECT_THAT(banned_words({"harness/cli/main.cc", "std::cout << 1;\n"}), IsEmpty());
  EXPECT_THAT(banned_words({"sim/net/link.cc", "std::cout << 1;\n"}),
              ElementsAre(HasSubstr("cli")));
}

TEST(TidyRuleTest, CatchingEverythingIsAllowedOnlyAtTheRankBoundary) {
  EXPECT_THAT(banned_words({"sim/fiber/world.cc", "} catch (...) {  // The rank boundary.\n"}),
              IsEmpty());
  EXPECT_THAT(banned_words({"sim/fiber/world.cc", "} catch (...) {\n"}),
              ElementsAre(HasSubstr("catch (const std::exception&)")));
}

TEST(TidyRuleTest, AStaticAssertIsNotAnAssert) {
  EXPECT_THAT(banned_words({"src/a.cc", "static_assert(true);\n"}), IsEmpty());
  EXPECT_THAT(banned_words({"src/a.cc", "assert(true);\n"}), ElementsAre(HasSubstr("CHECK")));
}

TEST(TidyRuleTest, CommentsAreBlankedAndLiteralsKept) {
  EXPECT_EQ(without_comments("a /* b\n*/ c // d\ne"), "a     \n   c     \ne");
  EXPECT_EQ(without_comments(R"(f("//", '"', "\"//") // x)"), R"(f("//", '"', "\"//")     )");
  EXPECT_EQ(without_comments("1'000 // x"), "1'000     ");
}

TEST(TidyRuleTest, ARelativeIncludeIsReported) {
  EXPECT_THAT(
      forbidden_includes({"src/nn/a.cc", "#include \"../base/text.h\"\n"}),
      ElementsAre("src/nn/a.cc:1: includes ../base/text.h: write \"lockstep/<room>/<file>.h\""));
}

TEST(TidyRuleTest, ALibraryOutsideItsRoomIsReported) {
  EXPECT_THAT(forbidden_includes({"src/nn/a.cc", "#include <Eigen/Dense>\n"}),
              ElementsAre(HasSubstr("only src/kernels/ may know")));
  EXPECT_THAT(forbidden_includes({"src/kernels/a.cc", "#include <Eigen/Dense>\n"}), IsEmpty());
  EXPECT_THAT(forbidden_includes({"harness/cli/a.cc", "#include <boost/fiber/all.hpp>\n"}),
              ElementsAre(HasSubstr("only sim/engine/ may know")));
  EXPECT_THAT(forbidden_includes({"harness/cli/a.cc", "#include <cuda_runtime.h>\n"}),
              ElementsAre(HasSubstr("only gpu/ may know")));
}

TEST(TidyRuleTest, AHeavyLibraryInAHeaderIsReported) {
  EXPECT_THAT(forbidden_includes({"src/kernels/a.h", "#include <Eigen/Dense>\n"}),
              ElementsAre(HasSubstr("belong into .cc files")));
  EXPECT_THAT(forbidden_includes({"sim/engine/detail/a.h", "#include <boost/fiber/all.hpp>\n"}),
              IsEmpty());
}

TEST(TidyRuleTest, ALongFileIsReported) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "x\n";
  EXPECT_THAT(too_long({"src/a.cc", text}), IsEmpty());
  EXPECT_THAT(too_long({"src/a.cc", text + "x\n"}), ElementsAre(HasSubstr("501 lines")));
}

TEST(TidyRuleTest, AVagueNameIsReported) {
  EXPECT_THAT(vague_name({"src/base/utils.h", ""}), ElementsAre(HasSubstr("'utils' is a drawer")));
  EXPECT_THAT(vague_name({"src/base/text.h", ""}), IsEmpty());
}

TEST(TidyRuleTest, AnUnfinishedNoteIsReported) {
  const std::string note = "FIX";
  EXPECT_THAT(unfinished_notes({"src/a.cc", "// " + note + "ME: later\n"}),
              ElementsAre(HasSubstr("src/a.cc:1:")));
  EXPECT_THAT(unfinished_notes({"src/a.cc", "// A " + note + "MEUP is a word of its own.\n"}),
              IsEmpty());
}

TEST(TidyRuleTest, AnUnguardedHeaderIsReported) {
  EXPECT_THAT(preprocessor_habits({"src/a.h", "int f();\n"}),
              ElementsAre("src/a.h: a header starts with #pragma once"));
}

TEST(TidyRuleTest, ABackendSelectedByThePreprocessorIsReported) {
  EXPECT_THAT(preprocessor_habits({"harness/cli/a.cc", "#ifdef USE_CUDA\n"}),
              ElementsAre(HasSubstr("a backend is a folder")));
  EXPECT_THAT(preprocessor_habits({"gpu/cuda/a.cu", "#ifdef __CUDA_ARCH__\n"}), IsEmpty());
}

TEST(TidyRuleTest, ASourceThatNoTargetCompilesIsReported) {
  const std::string commands = R"("file": "/x/src/base/text.cc")";

  EXPECT_THAT(not_built({"src/base/text.cc", ""}, commands), IsEmpty());
  EXPECT_THAT(not_built({"src/base/forgotten.cc", ""}, commands),
              ElementsAre(HasSubstr("no target compiles it")));
  EXPECT_THAT(not_built({"tests/base/text_spec.cc", ""}, commands),
              ElementsAre(HasSubstr("*_test.cc")));
}

TEST(TidyRuleTest, OnlyARoomThatWasLeftOutAsAWholeMayBeUnbuilt) {
  const File kernel = {"gpu/cuda/forgotten.cc", ""};

  EXPECT_THAT(not_built(kernel, R"("file": "/x/src/base/text.cc")"), IsEmpty());
  EXPECT_THAT(not_built(kernel, R"("file": "/x/gpu/cuda/stream.cc")"),
              ElementsAre(HasSubstr("no target compiles it")));
}

}  // namespace
}  // namespace lockstep::tidy
