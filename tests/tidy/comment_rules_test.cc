// The rules about comments, applied to every header and each shown one that breaks it.
#include "tests/tidy/comment_rules.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<File> headers() { return files_under(LOCKSTEP_SOURCE_DIR, {".h", ".cuh"}); }

TEST(CommentRulesTest, DocCommentsHaveTheirShape) {
  ASSERT_FALSE(headers().empty());
  for (const File& header : headers()) {
    for (const std::string& complaint : torn_doc_comments(header)) ADD_FAILURE() << complaint;
  }
}

TEST(CommentRulesTest, NoWordOfACommentStandsAlone) {
  for (const File& header : headers()) {
    for (const std::string& complaint : orphaned_words(header)) ADD_FAILURE() << complaint;
  }
}

TEST(CommentRulesTest, ACommentOfTheHouseIsFine) {
  const File header{"src/a.h",
                    "/// Adds two numbers.\n"
                    "///\n"
                    "/// Requires: numbers, as the kernel's contract says.\n"
                    "///     More of it (see Errors: nowhere).\n"
                    "/// Returns: the sum.\n"
                    "int add(int a, int b);\n"
                    "\n"
                    "/// Frees it. Requires: it was taken.\n"
                    "void release();\n"
                    "int n = 0;  ///< Of both. Units: bytes.\n"};

  EXPECT_THAT(torn_doc_comments(header), IsEmpty());
  EXPECT_THAT(orphaned_words(header), IsEmpty());
}

TEST(CommentRulesTest, ATagInTheMiddleOfALineIsReported) {
  const File header{"src/a.h",
                    "/// Buffers belong to the operation until it was waited\n"
                    "/// for. Deterministic: the same bits on every rank.\n"
                    "/// (Of each.) Source:\n"};

  EXPECT_THAT(torn_doc_comments(header),
              ElementsAre("src/a.h:2: begin a line with 'Deterministic:'",
                          "src/a.h:3: begin a line with 'Source:'"));
}

TEST(CommentRulesTest, AContinuationWithAnotherIndentIsReported) {
  const File header{"src/a.h",
                    "/// Requires: equal parameters on every\n"
                    "/// rank, as above.\n"
                    "/// Errors:   CommError,\n"
                    "///           thrown.\n"
                    "///\n"
                    "/// Another paragraph.\n"};

  EXPECT_THAT(torn_doc_comments(header),
              ElementsAre("src/a.h:2: indent what follows 'Requires:' by four",
                          "src/a.h:3: write one space after 'Errors:'",
                          "src/a.h:4: indent what follows 'Errors:' by four"));
}

TEST(CommentRulesTest, AWordThatStandsAloneIsReported) {
  const File header{"src/a.h",
                    "/// The order of summation is the group's named\n"
                    "/// reduction\n"
                    "///                order, never the order of arrival.\n"
                    "\n"
                    "// Channels are dimension\n"
                    "// 1\n"
                    "// of x.\n"
                    "/// A list:\n"
                    "/// last.\n"
                    "/// One\n"
                    "\n"};

  EXPECT_THAT(orphaned_words(header),
              ElementsAre("src/a.h:2: 'reduction' stands alone; join the lines",
                          "src/a.h:6: '1' stands alone; join the lines"));
}

}  // namespace
}  // namespace lockstep::tidy
