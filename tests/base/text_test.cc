#include "lockstep/base/text.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kKeys = {"world", "model", "data"};

TEST(TextTest, SuggestsTheClosestWord) {
  EXPECT_EQ(closest("wrold", kKeys), "world");
  EXPECT_EQ(closest("date", kKeys), "data");
  EXPECT_EQ(did_you_mean("modle", kKeys), "; did you mean 'model'?");
}

TEST(TextTest, PrintableTextCannotSteerATerminal) {
  EXPECT_EQ(printable("a\x1b]0;title\x07z"), "a\\x1b]0;title\\x07z");
  EXPECT_EQ(printable("one\ntwo\r\t"), "one\\ntwo\\x0d\\x09");
  EXPECT_EQ(printable("one\ntwo\t", "\n\t"), "one\ntwo\t");
  EXPECT_EQ(printable("\x9b\x31m"), "\\x9b\x31m");  // A bare byte: an old escape.
  EXPECT_EQ(printable("\xc2\x9b"), "\\u009b");      // The same in UTF-8.
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt"),
            "\\u202etxt");  // Turns what follows round.
  EXPECT_EQ(printable("\xc0\x9b \xed\xa0\x80"), "\\xc0\\x9b \\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  const std::string plain = "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 ~";
  EXPECT_EQ(printable(plain), plain);
  EXPECT_EQ(printable(printable("\x1b[31m")), printable("\x1b[31m"));
}

TEST(TextTest, SuggestsNothingWhenNothingIsNear) {
  EXPECT_EQ(closest("optimizer", kKeys), "");
  EXPECT_EQ(did_you_mean("optimizer", kKeys), "");
  EXPECT_EQ(closest("world", {}), "");
}

TEST(TextTest, AlternativesBeginWithTheClosestAndNameAll) {
  constexpr std::array<std::string_view, 2> kTwins = {"cat", "bat"};

  EXPECT_EQ(alternatives("cta", kTwins, "there are"), "; did you mean 'cat'? (there are cat, bat)");
  EXPECT_EQ(alternatives("horse", kTwins, "there are"), "; there are cat, bat");
}

TEST(TextTest, TiesGoToTheEarlierCandidate) {
  constexpr std::array<std::string_view, 2> kTwins = {"cat", "bat"};

  EXPECT_EQ(closest("rat", kTwins), "cat");
}

TEST(TextTest, HexWordsHaveSixteenDigitsAndReadBack) {
  EXPECT_EQ(hex64(0), "0000000000000000");
  EXPECT_EQ(hex64(0xFD695A1B70DC1235U), "fd695a1b70dc1235");
  EXPECT_EQ(parse_hex64("fd695a1b70dc1235"), 0xFD695A1B70DC1235U);
  EXPECT_EQ(parse_hex64("1F"), 31U);
}

TEST(TextTest, RefusesWhatIsNotAHexWord) {
  for (const char* text : {"", "0x1", "g", "1 ", "-1", "00000000000000001"}) {
    EXPECT_EQ(parse_hex64(text), std::nullopt) << text;
  }
}

TEST(TextTest, ExactNumbersAreShortAndReadBack) {
  EXPECT_EQ(exact(0.1), "0.1");
  EXPECT_EQ(exact(200), "200");
  EXPECT_EQ(exact(1e30), "1e+30");
  EXPECT_EQ(exact(-0.0), "-0");
  EXPECT_EQ(exact(std::nan("")), "nan");
  EXPECT_EQ(exact(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(parse_double(exact(1.0 / 3.0)), 1.0 / 3.0);
}

TEST(TextTest, NumbersAreParsedWholeOrNotAtAll) {
  EXPECT_EQ(parse_double("2.5"), 2.5);
  EXPECT_EQ(parse_double("2.5x"), std::nullopt);
  EXPECT_EQ(parse_double(""), std::nullopt);
  EXPECT_EQ(parse_int("-17"), -17);
  EXPECT_EQ(parse_int("17.0"), std::nullopt);
  EXPECT_EQ(parse_int("9223372036854775808"), std::nullopt);
}

TEST(TextTest, SplitsKeepingEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
}

TEST(TextTest, TrimsBlanksAtBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(TextTest, JoinsNumbersAndWords) {
  EXPECT_EQ(join(std::array<std::int32_t, 3>{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(join(std::array<std::string, 2>{"a", "b"}, "/"), "a/b");
  EXPECT_EQ(join(std::array<std::string, 3>{"", "", "x"}, "/"), "//x");
  EXPECT_EQ(join(std::span<const std::string>()), "");
}

}  // namespace
}  // namespace lockstep
