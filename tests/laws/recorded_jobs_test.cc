// progress on what recorders of real jobs leave: ranks without an end, batches left out alone.
#include <gmock/gmock.h>
#include <memory>

#include <gtest/gtest.h>

#include "lockstep/laws/trace_check.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using ::testing::ElementsAre;
using testing::EventStream;
using ::testing::StartsWith;

/// A stream of ranks that reduce gradients.
struct Reductions {
  explicit Reductions(std::int32_t n_ranks)
      : stream(n_ranks), next(static_cast<std::size_t>(n_ranks), 0) {}

  void post(std::int32_t rank, bool completes) {
    CollectiveEvent event;
    event.signature.op = CollectiveOp::kAllReduce;
    event.signature.count = 4;
    event.seq = next[static_cast<std::size_t>(rank)]++;
    stream.add(rank, event);
    event.phase = CollectivePhase::kCompleted;
    event.status = CallStatus::kOk;
    if (completes) stream.add(rank, event);
  }

  void end(std::int32_t rank, EndOutcome outcome) {
    stream.add(rank, EndEvent{.outcome = outcome});
  }

  EventStream stream;
  std::vector<std::int64_t> next;
};

/// Two ranks, three forwards each; rank 0 makes no backward of its second one.
LawResult check_a_batch_left_out(bool records_backwards) {
  Reductions job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (std::int32_t step = 0; step < 3; ++step) {
      job.stream.add(rank, ForwardEvent{});
      if (rank == 0 && step == 1) continue;
      job.post(rank, rank == 0 || step < 2);
      if (records_backwards) job.stream.add(rank, BackwardEvent{.reduced = true});
    }
  }
  job.end(0, EndOutcome::kOk);
  job.end(1, EndOutcome::kStuck);
  return check("progress", job.stream);
}

TEST(RecordedJobsTest, ABatchThatOneRankLeftOutIsNamed) {
  const LawResult result = check_a_batch_left_out(true);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{0}}));
  EXPECT_EQ(id_of(result.findings[0].cause), "nan-skip-one-rank");
}

constexpr std::int32_t kNever = -1;

/// The same, and rank 0 calls a barrier where rank 1 makes its last reduction.
LawResult check_a_barrier_after_a_batch_left_out(std::int32_t left_out) {
  Reductions job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (std::int32_t step = 0; step < 3; ++step) {
      job.stream.at(rank).opt = step;
      job.stream.add(rank, ForwardEvent{});
      if (rank == 0 && step == left_out) continue;
      if (rank == 0 && step == 2 && left_out == kNever)
        continue;  // Not followed by another forward.
      job.post(rank, step < 2);
      job.stream.add(rank, BackwardEvent{.reduced = true});
    }
  }
  CollectiveEvent barrier;
  barrier.signature.op = CollectiveOp::kBarrier;
  barrier.seq = job.next[0]++;
  job.stream.add(0, barrier);
  return check("collectives-match", job.stream);
}

TEST(RecordedJobsTest, AMismatchAfterABatchThatOneRankLeftOutIsBlamedOnThat) {
  const LawResult result = check_a_barrier_after_a_batch_left_out(1);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "nan-skip-one-rank");
  EXPECT_THAT(
      result.findings[0].message,
      ::testing::EndsWith("; rank 0 ran a synchronising forward without its backward (step 1)"));
}

TEST(RecordedJobsTest, AMismatchWithoutABatchLeftOutBeforeItIsNotBlamedOnOne) {
  const LawResult result = check_a_barrier_after_a_batch_left_out(kNever);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_NE(id_of(result.findings[0].cause), "nan-skip-one-rank");
}

TEST(RecordedJobsTest, WithoutRecordedBackwardsNoBatchCountsAsLeftOut) {
  const LawResult result = check_a_batch_left_out(false);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_NE(id_of(result.findings[0].cause), "nan-skip-one-rank");
}

TEST(RecordedJobsTest, ARankWithoutAnEndDiedAndIsNoPartition) {
  Reductions job(3);
  for (std::int32_t rank = 0; rank < 3; ++rank) job.post(rank, false);
  job.end(0, EndOutcome::kStuck);
  job.end(1, EndOutcome::kStuck);
  const LawResult result = check("progress", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{2}}));
  EXPECT_EQ(id_of(result.findings[0].cause), "rank-crash");
}

TEST(RecordedJobsTest, NoPartitionIsGuessedWhereNoRankSaysHowItEnded) {
  Reductions job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) job.post(rank, false);
  const LawResult result = check("progress", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kNone);
}

/// Whether rank 1, late at every call, is named as the straggler.
bool names_a_straggler(bool one_clock) {
  Reductions job(2);
  for (std::int32_t call = 0; call < 8; ++call) {
    job.post(0, true);
    job.stream.add(1, LogEvent{});
    job.stream.add(1, LogEvent{});
    job.post(1, true);
  }
  for (std::int32_t rank = 0; rank < 2; ++rank) job.end(rank, EndOutcome::kOk);
  Result<std::unique_ptr<Law>> law = make_law("progress", {.n_ranks = 2, .one_clock = one_clock});
  job.stream.play(*law.value());
  return !law.value()->finish(job.stream.names()).advice.empty();
}

TEST(RecordedJobsTest, OnlyACommonClockNamesAStraggler) {
  EXPECT_TRUE(names_a_straggler(true));
  EXPECT_FALSE(names_a_straggler(false));
}

/// What `lockstep check` says of files with these events, and this note of their reader.
Report check_files(const Reductions& job, const std::string& note = "") {
  LoadedTrace loaded;
  loaded.header.n_ranks = job.stream.n_ranks();
  loaded.header.backend = "gloo";
  loaded.trace = std::make_shared<MemoryTrace>(job.stream.shared_names());
  loaded.trace->ensure_ranks(job.stream.n_ranks());
  if (!note.empty()) loaded.notes.push_back(note);
  job.stream.play(*loaded.trace);
  Result<Report> report = check_trace(loaded, {}, {});
  EXPECT_TRUE(report.ok());
  return std::move(report.value());
}

/// What a folder of one of two nodes holds: ranks 0 and 1 of four.
Report check_one_node(EndOutcome end_of_rank_1) {
  Reductions job(4);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.post(rank, true);
    job.end(rank, rank == 0 ? EndOutcome::kOk : end_of_rank_1);
  }
  return check_files(job);
}

TEST(RecordedJobsTest, RanksOfAnotherNodeAreNotBlamedWhereTheOthersEndedWell) {
  const Report report = check_one_node(EndOutcome::kOk);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.error, "");
  EXPECT_THAT(report.notes, ElementsAre(StartsWith("ranks 2, 3 have left no trace here")));
}

TEST(RecordedJobsTest, RanksWithoutATraceAreNamedWhereOneOfTheOthersDidNotEndWell) {
  const Report report = check_one_node(EndOutcome::kNone);
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.error, "");
  EXPECT_TRUE(report.notes.empty());
}

/// Two healthy ranks. Rank 1 could not record this many things, rank 0 only the first of them.
Report check_what_missed(std::int32_t n_things) {
  Reductions job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.post(rank, true);
    job.stream.add(rank, LogEvent{.text = job.stream.name("a line of the program")});
    for (std::int32_t i = 0; i < (rank == 0 ? 1 : n_things); ++i) {
      const LogEvent missed = {
          .text = job.stream.name("thing " + std::string(1, static_cast<char>('a' + i))),
          .kind = LogKind::kMissed};
      job.stream.add(rank, missed);
      job.stream.add(rank, missed);
    }
    job.end(rank, EndOutcome::kOk);
  }
  return check_files(job, "cut short");
}

TEST(RecordedJobsTest, WhatARecorderMissedIsInTheReportAndAccusesNoRank) {
  const Report report = check_what_missed(2);
  EXPECT_TRUE(report.ok());
  EXPECT_THAT(report.notes,
              ElementsAre("cut short",
                          "not recorded on ranks 0, 1, so not checked: thing a",
                          "not recorded on rank 1, so not checked: thing b"));
}

TEST(RecordedJobsTest, AReportNamesSixteenThingsThatWereMissedAndCountsTheRest) {
  EXPECT_EQ(check_what_missed(16).notes.size(), 17U);
  const Report report = check_what_missed(19);
  ASSERT_EQ(report.notes.size(), 18U);
  EXPECT_THAT(report.notes.back(), StartsWith("and 3 more that were not recorded"));
}

}  // namespace
}  // namespace lockstep
