// checkpoint-whole on files that one rank reads or writes after another has written them.
#include "lockstep/laws/rules/detail/checkpoints/file_accesses.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/laws/rules/detail/checkpoints/replaced_files.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::EventStream;

/// Two ranks or more that make calls, and touch files.
struct Files {
  EventStream stream{3};

  void call(std::int32_t rank,
            std::int64_t seq,
            CollectiveOp op = CollectiveOp::kBarrier,
            std::int32_t group = 0,
            CollectivePhase phase = CollectivePhase::kPosted) {
    const Signature signature{.op = op};
    stream.add(rank,
               CollectiveEvent{.phase = phase, .group = group, .seq = seq, .signature = signature});
  }

  void all_call(std::int64_t seq) {
    for (const std::int32_t rank : {0, 1, 2}) call(rank, seq);
  }

  void touch(std::int32_t rank,
             SnapshotAction action,
             std::string_view path = "best.pt",
             std::uint64_t digest = 7,
             std::int64_t step = 3) {
    stream.add(rank,
               SnapshotEvent{
                   .action = action, .step = step, .detail = stream.name(path), .digest = digest});
  }

  void write(std::int32_t rank, std::uint64_t digest = 7) {
    touch(rank, SnapshotAction::kPart, "best.pt", digest);
  }

  void read(std::int32_t rank, std::uint64_t digest = 7) {
    touch(rank, SnapshotAction::kRead, "best.pt", digest);
  }

  std::vector<Advice> advice() const {
    const LawResult alone = check("checkpoint-whole", stream);
    const LawResult together = check_together("checkpoint-whole", stream);
    EXPECT_EQ(alone.advice.size(), together.advice.size());
    EXPECT_EQ(alone.n_checked, together.n_checked);
    EXPECT_TRUE(alone.findings.empty());
    return alone.advice;
  }
};

TEST(FileAccessesTest, AFileThatAnotherRankMayStillBeWritingIsReadTooEarly) {
  Files files;
  files.all_call(0);
  files.write(0);
  files.read(1);
  files.read(2);
  const std::vector<Advice> found = files.advice();
  ASSERT_EQ(found.size(), 1U) << "the first of them";
  EXPECT_EQ(found[0].id, "A-read-early");
  EXPECT_EQ(found[0].about, AdviceSubject::kProgram);
  EXPECT_TRUE(found[0].message.starts_with("rank 1 reads best.pt, which rank 0 writes"))
      << found[0].message;
}

TEST(FileAccessesTest, AProgramsFileThatAnotherRankMayStillBeWritingIsReadTooEarly) {
  Files files;
  files.all_call(0);
  files.touch(0, SnapshotAction::kWrite, "data.npy", 0);
  files.touch(1, SnapshotAction::kOpen, "data.npy", 0);
  const std::vector<Advice> found = files.advice();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].message.starts_with("rank 1 reads data.npy, which rank 0 writes"))
      << found[0].message;
  Files ordered;
  ordered.touch(0, SnapshotAction::kWrite, "data.npy", 0);
  ordered.all_call(0);
  ordered.touch(1, SnapshotAction::kOpen, "data.npy", 0);
  EXPECT_TRUE(ordered.advice().empty());
}

TEST(FileAccessesTest, RanksThatWriteOneFileAnewInNoOrderOverwriteEachOther) {
  Files files;
  files.all_call(0);
  files.touch(2, SnapshotAction::kWrite, "found.csv", 0);
  files.touch(0, SnapshotAction::kWrite, "found.csv", 0);
  const std::vector<Advice> found = files.advice();
  ASSERT_EQ(found.size(), 1U) << "nor is it a checkpoint with several writers";
  EXPECT_EQ(found[0].id, "A-overwritten");
  EXPECT_TRUE(found[0].message.starts_with("ranks 0, 2 each open found.csv to rewrite it"))
      << found[0].message;
}

TEST(FileAccessesTest, RanksMayAddToOneFileTogether) {
  Files files;
  Files mixed;
  for (const std::int32_t rank : {0, 1, 2}) files.touch(rank, SnapshotAction::kExtend, "a.log", 0);
  EXPECT_TRUE(files.advice().empty());
  mixed.touch(0, SnapshotAction::kWrite, "a.log", 0);
  mixed.touch(1, SnapshotAction::kExtend, "a.log", 0);
  EXPECT_TRUE(mixed.advice().empty());
}

TEST(FileAccessesTest, RanksThatLockTheFileTheyOpenAnewTakeTurns) {
  Files files;
  for (const std::int32_t rank : {0, 1}) {
    files.touch(rank, SnapshotAction::kWrite, "lockfile", 0);
    files.touch(rank, SnapshotAction::kExtend, "lockfile", 0);
  }
  EXPECT_TRUE(files.advice().empty());
}

TEST(FileAccessesTest, ALockOrdersOnlyTheRankThatTakesItAndOnlyForThatFile) {
  const auto advised = [](std::int32_t rank, std::string_view path, std::int32_t attempt) {
    Files files;
    files.stream.at(rank).attempt = attempt;
    files.touch(rank, SnapshotAction::kExtend, path, 0);
    for (const std::int32_t writer : {0, 1}) {
      files.stream.at(writer).attempt = 1;
      files.touch(writer, SnapshotAction::kWrite, "found.csv", 0);
    }
    return !files.advice().empty();
  };
  EXPECT_FALSE(advised(0, "found.csv", 1));
  EXPECT_TRUE(advised(2, "found.csv", 1));
  EXPECT_TRUE(advised(0, "lockfile", 1));
  EXPECT_TRUE(advised(0, "found.csv", 0));
}

TEST(FileAccessesTest, WhatIsAddedToAFileMayStillBeUnderWayAsWell) {
  Files files;
  files.touch(0, SnapshotAction::kExtend, "a.log", 0);
  files.touch(1, SnapshotAction::kOpen, "a.log", 0);
  ASSERT_EQ(files.advice().size(), 1U);
  EXPECT_EQ(files.advice()[0].id, "A-read-early");
}

TEST(FileAccessesTest, OneRankMayWriteAFileAgainAndOthersTheirOwn) {
  Files files;
  for (std::int32_t i = 0; i < 2; ++i) files.touch(0, SnapshotAction::kWrite, "found.csv", 0);
  files.touch(1, SnapshotAction::kWrite, "found-1.csv", 0);
  EXPECT_TRUE(files.advice().empty());
}

TEST(FileAccessesTest, RanksMayWriteAFileByTurns) {
  Files files;
  files.touch(0, SnapshotAction::kWrite, "found.csv", 0);
  files.all_call(0);
  files.touch(1, SnapshotAction::kWrite, "found.csv", 0);
  EXPECT_TRUE(files.advice().empty());
}

TEST(FileAccessesTest, WithoutAnyCallThereIsNoOrderEither) {
  Files files;
  files.write(2);
  files.read(0);
  ASSERT_EQ(files.advice().size(), 1U);
}

TEST(FileAccessesTest, ABarrierOrdersAWriteAndARead) {
  Files after;
  after.all_call(0);
  after.write(0);
  after.all_call(1);
  after.read(1);
  EXPECT_TRUE(after.advice().empty());
  Files before;
  before.read(1);
  before.all_call(0);
  before.write(0);
  EXPECT_TRUE(before.advice().empty());
}

TEST(FileAccessesTest, CallsThatOnlyOneOfThemMakesMayOrderThemByWayOfOthers) {
  Files of_a_group;
  of_a_group.all_call(0);
  of_a_group.write(0);
  of_a_group.call(1, 0, CollectiveOp::kBarrier, 1);
  of_a_group.read(1);
  EXPECT_TRUE(of_a_group.advice().empty());
  Files by_message;
  by_message.all_call(0);
  by_message.write(0);
  by_message.call(1, 0, CollectiveOp::kRecv);
  by_message.read(1);
  EXPECT_TRUE(by_message.advice().empty());
}

TEST(FileAccessesTest, ACallCountsWhereItIsMade) {
  Files files;
  files.all_call(0);
  files.all_call(1);
  files.write(0);
  files.call(1, 0, CollectiveOp::kBarrier, 0, CollectivePhase::kCompleted);
  files.read(1);
  EXPECT_EQ(files.advice().size(), 1U);
}

TEST(FileAccessesTest, ARankReadsWhatItHasWrittenItself) {
  Files files;
  files.write(0);
  files.read(0);
  EXPECT_TRUE(files.advice().empty());
}

TEST(FileAccessesTest, OnlyReadsOfWhatAnotherRankWroteAreCompared) {
  Files files;
  files.write(0);
  files.touch(1, SnapshotAction::kRead, "weights.pt");
  const std::int64_t n_before = check("checkpoint-whole", files.stream).n_checked;
  files.all_call(0);
  files.read(1);
  EXPECT_EQ(check("checkpoint-whole", files.stream).n_checked, n_before + 1);
  Files alone;
  alone.read(1);
  EXPECT_EQ(check("checkpoint-whole", alone.stream).verdict, Verdict::kNotCheckable);
}

TEST(FileAccessesTest, OnlyTheFirstOfManyAccessesAreJudged) {
  constexpr std::int32_t kMost = 4096;
  for (const std::int32_t n_before : {kMost - 1, kMost}) {
    Files files;
    for (std::int32_t i = 0; i < n_before; ++i) files.touch(1, SnapshotAction::kRead, "last.pt");
    files.write(0);
    files.read(1);
    EXPECT_EQ(files.advice().size(), n_before < kMost ? 1U : 0U);
  }
}

TEST(FileAccessesTest, WhereABudgetMayHaveLeftOutCallsNothingIsJudged) {
  Files written;
  written.write(0, 0);
  written.read(1);
  EXPECT_TRUE(written.advice().empty());
  Files read;
  read.write(0);
  read.read(1, 0);
  EXPECT_TRUE(read.advice().empty());
}

TEST(FileAccessesTest, AnotherFileOrAnotherAttemptIsNoMatter) {
  Files other;
  other.write(0);
  other.touch(1, SnapshotAction::kRead, "last.pt");
  EXPECT_TRUE(other.advice().empty());
  Files later;
  later.write(0);
  ++later.stream.at(1).attempt;
  later.read(1);
  EXPECT_TRUE(later.advice().empty());
  Files anew;
  anew.touch(0, SnapshotAction::kWrite, "found.csv", 0);
  ++anew.stream.at(1).attempt;
  anew.touch(1, SnapshotAction::kWrite, "found.csv", 0);
  EXPECT_TRUE(anew.advice().empty());
}

TEST(FileAccessesTest, ACallOfTheLastAttemptIsNoneOfThisOne) {
  Files files;
  files.all_call(0);
  for (const std::int32_t rank : {0, 1}) ++files.stream.at(rank).attempt;
  files.write(0);
  files.call(1, 0);
  files.read(1);
  EXPECT_TRUE(files.advice().empty()) << "rank 0 may write before it";
}

TEST(FileAccessesTest, TheLastCallCountsWhetherAllMakeItOrOne) {
  for (const bool alone_last : {false, true}) {
    laws::FileAccesses accesses;
    const CollectiveEvent message{.seq = 5, .signature = {.op = CollectiveOp::kRecv}};
    Event of_rank_1;
    of_rank_1.rank = Rank{1};
    const laws::RankRange alone{.first = 1, .n = 1};
    if (!alone_last) accesses.on_call(of_rank_1, message, alone);
    accesses.on_call({}, {}, {.first = 0, .n = 2});
    if (alone_last) accesses.on_call(of_rank_1, message, alone);
    accesses.on_write({.rank = 0, .path = "best.pt"});
    accesses.on_read({.rank = 1, .path = "best.pt"});
    EXPECT_EQ(accesses.judged().advice.empty(), alone_last);
  }
}

/// Whether advice is given on writes of one file: each a rank, a step and a digest.
std::vector<Advice> written(const std::vector<std::array<int, 3>>& writes) {
  Files files;
  for (const auto& [rank, step, digest] : writes) {
    files.touch(rank,
                SnapshotAction::kPart,
                "last.pt",
                static_cast<std::uint64_t>(digest),
                std::int64_t{step});
  }
  return files.advice();
}

TEST(ReplacedFilesTest, AFileOfOneRankThatAnotherWritesLaterIsLost) {
  const std::vector<Advice> found = written({{0, 2, 7}, {0, 4, 8}, {1, 12, 9}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "A-written-over");
  EXPECT_TRUE(
      found[0].message.starts_with("rank 1 overwrites last.pt after step 12 with different "
                                   "contents: the version that rank 0 wrote after step 4 is lost"))
      << found[0].message;
}

TEST(ReplacedFilesTest, TheSameContentsLoseNothing) {
  EXPECT_TRUE(written({{0, 4, 7}, {1, 12, 7}}).empty());
  EXPECT_TRUE(written({{0, 4, 0}, {1, 12, 7}}).empty()) << "not known";
  EXPECT_TRUE(written({{0, 4, 7}, {1, 12, 0}}).empty()) << "not known";
}

TEST(ReplacedFilesTest, OneRankMayWriteItsFileAgain) {
  EXPECT_TRUE(written({{0, 4, 7}, {0, 12, 8}}).empty());
}

TEST(ReplacedFilesTest, WhatItHeldLastCounts) {
  EXPECT_TRUE(written({{0, 2, 7}, {0, 4, 9}, {1, 12, 9}}).empty());
  EXPECT_EQ(written({{0, 2, 9}, {0, 4, 7}, {1, 12, 9}}).size(), 1U);
}

/// That is a finding of its own.
TEST(ReplacedFilesTest, TwoWritesInOneStepReplaceNothing) {
  laws::ReplacedFiles files;
  files.on_write({.attempt = 0, .step = 4, .rank = 0, .digest = 7}, "last.pt");
  files.on_write({.attempt = 0, .step = 4, .rank = 1, .digest = 8}, "last.pt");
  EXPECT_FALSE(files.advice().has_value());
}

TEST(ReplacedFilesTest, OnlyTheFirstOfManyFilesAreFollowed) {
  laws::ReplacedFiles files;
  const auto write_by_both = [&](const std::string& path) {
    files.on_write({.attempt = 0, .step = 4, .rank = 0, .digest = 7}, path);
    files.on_write({.attempt = 0, .step = 12, .rank = 1, .digest = 8}, path);
  };
  for (int i = 0; i < 4096; ++i)
    files.on_write({.attempt = 0, .step = 4, .rank = 0, .digest = 7}, std::to_string(i));
  write_by_both("one more");
  EXPECT_FALSE(files.advice().has_value());
  write_by_both("4095");
  EXPECT_TRUE(files.advice().has_value());
}

TEST(ReplacedFilesTest, AfterARestartAnotherRankMayWriteIt) {
  Files files;
  files.touch(0, SnapshotAction::kPart, "last.pt", 7, 4);
  for (const std::int32_t rank : {0, 1, 2}) files.stream.at(rank).attempt = 1;
  files.touch(1, SnapshotAction::kPart, "last.pt", 8, 12);
  EXPECT_TRUE(files.advice().empty());
}

TEST(ReplacedFilesTest, RanksMayTakeTurns) {
  EXPECT_TRUE(written({{0, 4, 7}, {1, 8, 8}, {0, 12, 9}, {1, 16, 10}}).empty());
}

}  // namespace
}  // namespace lockstep
