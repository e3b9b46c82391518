#include "lockstep/formats/trace_tail.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/trace/memory_trace.h"

#include "tests/support/event_stream.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::EventStream;
using testing::TempFolder;

constexpr const char* kFirstLine =
    R"({"lockstep_trace":1,"run":"r1","attempt":0,"rank":0,"ranks":2,"backend":"sim"})"
    "\n";

std::string numbered(int index, const std::string& rest) {
  return R"({"rank":0,"i":)" + std::to_string(index) + R"(,"t":0,"at":[0,0,0,0,0,0],)" + rest +
         "}\n";
}

const std::string kLogged = R"("kind":"log","text":"hello")";
const std::string kEnded = R"("kind":"end","outcome":"stuck","detail":"")";

/// A folder with one file, and what a tail has delivered of it.
class TraceTailTest : public ::testing::Test {
 protected:
  TraceTailTest() : tail_(folder_.path()), seen_(tail_.names()) {}

  void write(const std::string& text, const std::string& file = "a000.rank-00000.jsonl") {
    std::ofstream(folder_.path() + "/" + file, std::ios::binary) << text;
  }

  std::int64_t poll() {
    const Result<std::int64_t> n = tail_.poll(seen_);
    EXPECT_TRUE(n.ok()) << n.error().text();
    return n.ok() ? n.value() : -1;
  }

  TempFolder folder_;
  TraceTail tail_;
  MemoryTrace seen_;
};

TEST_F(TraceTailTest, WaitsForAFileAHeaderAndTheRestOfALine) {
  EXPECT_EQ(poll(), 0);
  write("");
  EXPECT_EQ(poll(), 0);
  write(std::string(kFirstLine).substr(0, 30));
  EXPECT_EQ(poll(), 0);
  EXPECT_FALSE(tail_.header().has_value());
  const std::string whole = kFirstLine + numbered(0, kLogged) + numbered(1, kLogged);
  write(whole.substr(0, whole.size() - 9));
  EXPECT_EQ(poll(), 1);
  ASSERT_TRUE(tail_.header().has_value());
  EXPECT_EQ(tail_.header()->n_ranks, 2);
  write(whole);
  EXPECT_EQ(poll(), 1);
  EXPECT_EQ(poll(), 0);
  EXPECT_EQ(seen_.events(Rank{0}).size(), 2U);
}

TEST_F(TraceTailTest, DoesNotBelieveAnEndThatMayBeTakenBack) {
  write(kFirstLine + numbered(0, kLogged) + numbered(1, kEnded));
  EXPECT_EQ(poll(), 1);
  write(kFirstLine + numbered(0, kLogged) + numbered(1, kLogged) + numbered(2, kEnded));
  EXPECT_EQ(poll(), 1);
  EXPECT_TRUE(std::holds_alternative<LogEvent>(seen_.events(Rank{0}).back().body));
}

TEST_F(TraceTailTest, BelievesAnEndThatALaterAttemptFollows) {
  write(kFirstLine + numbered(0, kLogged) + numbered(1, kEnded));
  EXPECT_EQ(poll(), 1);
  write(kFirstLine + numbered(2, kLogged), "a001.rank-00000.jsonl");
  EXPECT_EQ(poll(), 2);
  EXPECT_EQ(seen_.events(Rank{0}).size(), 3U);
}

TEST_F(TraceTailTest, NamesADamagedLineAndStaysThere) {
  write(kFirstLine + numbered(0, kLogged) + "{\"rank\":0,\n" + numbered(1, kLogged));
  for (int i = 0; i < 2; ++i) {
    const Result<std::int64_t> n = tail_.poll(seen_);
    ASSERT_FALSE(n.ok());
    EXPECT_NE(n.error().where.find("a000.rank-00000.jsonl:3:"), std::string::npos);
  }
}

TEST_F(TraceTailTest, ReadsLinesThatAreLongerThanAPart) {
  const std::string text = R"("kind":"log","text":")" + std::string(5000, 'x') + "\"";
  write(kFirstLine + numbered(0, text) + numbered(1, kLogged));
  const Result<std::int64_t> n = tail_.poll(seen_, 100);
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(n.value(), 2);
}

TEST_F(TraceTailTest, RefusesFilesOfAnotherRun) {
  write(kFirstLine + numbered(0, kLogged));
  EXPECT_EQ(poll(), 1);
  write(R"({"lockstep_trace":1,"run":"r2","attempt":0,"rank":1,"ranks":2,"backend":"sim"})"
        "\n",
        "a000.rank-00001.jsonl");
  EXPECT_FALSE(tail_.poll(seen_).ok());
}

}  // namespace
}  // namespace lockstep
