#include "tests/tidy/comparison_rules.h"

#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <string_view>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Rooms that exist to read or to print text.
constexpr std::array<std::string_view, 4> kRoomsOfText = {
    "src/formats/", "harness/format/", "harness/cli/", "harness/report/"};

/// Other files that read or print: logs and results of other programs, variables of launchers, names
/// and manifests of files. A number may only fall.
const std::map<std::string, std::size_t> kAllowedComparisons = {
    {"harness/crosscheck/nccl_log.cc", 2},
    {"harness/crosscheck/order_search.cc", 2},
    {"harness/gpu_record/main.cc", 2},
    {"python/native/coordinate.cc", 3},
    {"harness/whatif/nccl_tests_output.cc", 5},
    {"real/host/launch_environment.cc", 3},
    {"real/launch/launch_options.cc", 2},
    {"real/launch/supervisor.cc", 1},
    {"real/torchrun/devices.cc", 5},
    {"real/torchrun/program.cc", 2},
    {"real/torchrun/rendezvous.cc", 9},
    {"src/data/npy.cc", 3},
    {"src/laws/report.cc", 1},
    {"src/laws/report_text.cc", 2},
    {"src/train/snapshots/snapshot_files.cc", 3}};

TEST(ComparisonRulesTest, TheProductComparesWithTextsOnlyWhereItReadsOrWritesThem) {
  std::vector<File> files = files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cc", ".cu", ".cuh"});
  std::erase_if(files, [](const File& file) {
    return file.path.starts_with("tests/") || file.path.starts_with("bench/") ||
           file.path.starts_with("examples/") ||
           std::any_of(kRoomsOfText.begin(), kRoomsOfText.end(), [&](std::string_view room) {
             return file.path.starts_with(room);
           });
  });
  ASSERT_FALSE(files.empty());
  EXPECT_THAT(literal_comparisons(files, kAllowedComparisons), IsEmpty());
}

TEST(ComparisonRulesTest, ALiteralOnEitherSideIsFoundWithItsLine) {
  EXPECT_THAT(literal_comparisons_in({"a.cc",
                                      "if (kind == \"ring\") {}\nif (\"tree\" != kind) {}\n"
                                      "const bool a = kind ==\n    \"both\";\n"
                                      "if (\"text\"sv == kind) {}\n"}),
              ElementsAre(0U, 1U, 3U, 4U));
}

TEST(ComparisonRulesTest, ARawLiteralIsOneToo) {
  EXPECT_THAT(literal_comparisons_in({"a.cc", "if (a == R\"(x)\") {}"}), ElementsAre(0U));
}

TEST(ComparisonRulesTest, OtherUsesOfLiteralsAreNotComparisons) {
  EXPECT_THAT(literal_comparisons_in({"a.cc",
                                      "f(\"a\");\nif (c == '\"' || c != 'x') g(\"b\");\n"
                                      "const char* d = \"e == \";\nint n = 1'000; h(\"== i\");\n"
                                      "if (kind == Kind::kRing) say(\"it is\");\n"}),
              IsEmpty());
}

TEST(ComparisonRulesTest, CommentsAreNotRead) {
  EXPECT_THAT(literal_comparisons_in({"a.cc", "// kind == \"ring\"\n/* a != \"b\" */\n"}),
              IsEmpty());
}

TEST(ComparisonRulesTest, ANewComparisonIsReported) {
  const std::vector<File> files = {{"a.cc", "\nif (kind == \"ring\") {}"}};
  EXPECT_THAT(literal_comparisons(files, {}),
              ElementsAre("a.cc:2: compares with a string literal 1 times, and may 0 times: a "
                          "closed set of words is an enum with a EnumNames"));
  EXPECT_THAT(literal_comparisons(files, {{"a.cc", 1}}), IsEmpty());
}

TEST(ComparisonRulesTest, AnExceptionFallsWithWhatItAllows) {
  const std::vector<File> files = {{"a.cc", "if (kind == \"ring\") {}"}, {"b.cc", ""}};
  EXPECT_THAT(literal_comparisons(files, {{"a.cc", 2}, {"gone.cc", 1}}),
              ElementsAre("a.cc compares with a string literal 1 times: let its exception say so",
                          "gone.cc is not there: it needs no exception"));
}

}  // namespace
}  // namespace lockstep::tidy
