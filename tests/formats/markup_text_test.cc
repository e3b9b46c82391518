// What any bytes become in XML and HTML.
#include "lockstep/formats/markup_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(MarkupTextTest, MarkupBecomesEntities) {
  EXPECT_EQ(escape_markup("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

TEST(MarkupTextTest, ControlCharactersBecomeBlanksAndNewlinesStay) {
  EXPECT_EQ(escape_markup(std::string_view("a\0b\x1b\x7f\n", 6)), "a b  \n");
}

TEST(MarkupTextTest, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  EXPECT_EQ(escape_markup("\xc3\xa9\xff!"), "\xc3\xa9\xef\xbf\xbd!");
  EXPECT_EQ(escape_markup("\xc3"), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace lockstep
