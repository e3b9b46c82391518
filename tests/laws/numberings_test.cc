// samples-covered: tables by which ranks number words.
#include <gmock/gmock.h>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;
using ::testing::Not;

/// What a rank's table says: digests of its words and of their numbers; 0: nothing.
struct Table {
  std::uint64_t words = 0;
  std::uint64_t numbers = 0;
};

class TablesJob {
 public:
  explicit TablesJob(std::int32_t n_ranks) : job_(n_ranks) {}

  TablesJob& hold(std::string_view name, const std::vector<Table>& of_rank) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      const Table& own = of_rank[static_cast<std::size_t>(rank)];
      const auto add = [&](DataPart part, std::uint64_t digest) {
        if (digest == 0) return;
        job_.at(rank).wrapper = -1;
        job_.stream.add(
            rank, DataEvent{.part = part, .source = job_.stream.name(name), .digest = digest});
      };
      add(DataPart::kVocabulary, own.words);
      add(DataPart::kNumbering, own.numbers);
    }
    return *this;
  }

  LawResult judged() const { return check("samples-covered", job_.stream); }

  std::vector<Advice> advice() const { return judged().advice; }

 private:
  DdpJob job_;
};

TEST(NumberingsTest, RanksThatNumberTheSameWordsInAnotherOrderAreAdvised) {
  const auto advice = TablesJob(3).hold("`ids` in a.py", {{5, 1}, {5, 2}, {5, 1}}).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-numbered-apart");
  EXPECT_THAT(advice[0].message, HasSubstr("`ids` in a.py (rank 1 differs from rank 0)"));
}

TEST(NumberingsTest, TablesAreNoSamples) {
  TablesJob job(2);
  job.hold("ids", {{5, 1}, {5, 2}});
  EXPECT_EQ(job.judged().verdict, Verdict::kNotCheckable);
  EXPECT_EQ(job.judged().n_checked, 0);
}

TEST(NumberingsTest, OneOrderOnAllRanksIsFine) {
  EXPECT_TRUE(TablesJob(2).hold("ids", {{5, 1}, {5, 1}}).advice().empty());
}

TEST(NumberingsTest, RanksWithOtherWordsHaveTablesOfTheirOwn) {
  EXPECT_TRUE(TablesJob(2).hold("ids", {{5, 1}, {6, 2}}).advice().empty());
}

TEST(NumberingsTest, TablesOfDifferentNamesAreNotCompared) {
  TablesJob job(2);
  job.hold("ids", {{5, 1}, {}}).hold("labels", {{}, {5, 2}});
  EXPECT_TRUE(job.advice().empty());
}

TEST(NumberingsTest, ATableThatARankDidNotFinishSaysNothing) {
  EXPECT_TRUE(TablesJob(2).hold("ids", {{5, 1}, {5, 0}}).advice().empty());
  EXPECT_TRUE(TablesJob(2).hold("ids", {{5, 0}, {5, 1}}).advice().empty());
}

TEST(NumberingsTest, OnlyTheFirstTableOfANameOnEachRankCounts) {
  TablesJob job(2);
  job.hold("ids", {{5, 1}, {5, 1}}).hold("ids", {{5, 2}, {5, 3}});
  EXPECT_TRUE(job.advice().empty());
}

TEST(NumberingsTest, NoMoreThanThreeTablesAreNamed) {
  TablesJob job(2);
  for (const char* name : {"first", "second", "third"}) job.hold(name, {{5, 1}, {5, 2}});
  ASSERT_EQ(job.advice().size(), 1U);
  EXPECT_THAT(job.advice()[0].message, HasSubstr("third (rank 1 differs"));
  EXPECT_THAT(job.advice()[0].message, Not(HasSubstr("; and")));
  job.hold("fourth", {{5, 1}, {5, 2}});
  EXPECT_THAT(job.advice()[0].message, Not(HasSubstr("fourth")));
  EXPECT_THAT(job.advice()[0].message, HasSubstr("; and 1 more."));
}

}  // namespace
}  // namespace lockstep
