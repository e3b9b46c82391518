// environment-bijective and checkpoint-whole on streams written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

/// What two nodes with two ranks each were started with.
struct Launched {
  EventStream stream{4};

  void add(std::int32_t rank, EnvironmentEvent event) {
    event.node = stream.name(rank < 2 ? "0" : "1");
    stream.add(rank, event);
  }

  EnvironmentEvent healthy(std::int32_t rank) {
    return {.world = 4,
            .local_rank = rank % 2,
            .device = stream.name(rank % 2 == 0 ? "cuda:0" : "cuda:1"),
            .schema = 7};
  }

  LawResult with(EnvironmentEvent last) {
    for (const std::int32_t rank : {0, 1, 2}) add(rank, healthy(rank));
    add(3, last);
    return check("environment-bijective", stream);
  }
};

TEST(EnvironmentTest, HoldsWhereAllRanksHaveDistinctEnvironments) {
  Launched launched;
  EXPECT_EQ(launched.with(launched.healthy(3)).verdict, Verdict::kHolds);
}

TEST(EnvironmentTest, NamesWhatOneRankWasGivenWrong) {
  const auto field_of = [](auto&& change) {
    Launched launched;
    EnvironmentEvent event = launched.healthy(3);
    change(launched, event);
    const LawResult result = launched.with(event);
    if (result.findings.size() != 1) return std::string("none or many");
    EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{3}});
    return result.findings[0].field + " " + std::string(id_of(result.findings[0].cause));
  };
  EXPECT_EQ(field_of([](Launched&, EnvironmentEvent& event) { event.world = 1; }),
            "world env-missing-solo");
  EXPECT_EQ(field_of([](Launched&, EnvironmentEvent& event) { event.local_rank = 0; }),
            "local_rank two-rank-zeros");
  EXPECT_EQ(field_of([](Launched& launched, EnvironmentEvent& event) {
              event.device = launched.stream.name("cuda:0");
            }),
            "device duplicate-device");
  EXPECT_EQ(field_of([](Launched&, EnvironmentEvent& event) { event.schema = 8; }),
            "schema model-differs");
}

/// Models of the same schema on three ranks, by what their modules are.
LawResult of_modules(std::vector<std::string_view> by_rank) {
  EventStream stream(3);
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    stream.add(rank,
               ConfigurationEvent{.name = stream.name("model"),
                                  .digest = 7,
                                  .value = stream.name(by_rank[to_index(Rank{rank})])});
  }
  return check("environment-bijective", stream);
}

TEST(EnvironmentTest, ModelsOfTheSameParametersMustBeOfTheSameModules) {
  EXPECT_EQ(of_modules({"1: ReLU()", "1: ReLU()", "1: ReLU()"}).verdict, Verdict::kHolds);
  const LawResult result = of_modules({"1: ReLU(); 2: Dropout(p=0.1); 3: Tanh()",
                                       "1: ReLU(); 2: Dropout(p=0.4); 3: ReLU()",
                                       "1: ReLU(); 2: Dropout(p=0.1); 3: Tanh()"});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.cause, Cause::kModelDiffers);
  EXPECT_EQ(finding.field, "modules");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.message,
            "the model has `2: Dropout(p=0.4)` where the other ranks have `2: Dropout(p=0.1)`");
}

TEST(EnvironmentTest, EachModelThatDiffersIsNamed) {
  EventStream stream(2);
  for (const std::int32_t wrapper : {0, 1}) {
    for (const std::int32_t rank : {0, 1}) {
      stream.at(rank).wrapper = wrapper;
      stream.add(rank,
                 ConfigurationEvent{.name = stream.name("model"),
                                    .digest = 7,
                                    .value = stream.name(rank == 0 ? "ReLU()" : "Tanh()")});
    }
  }
  EXPECT_EQ(check("environment-bijective", stream).findings.size(), 2U);
}

TEST(EnvironmentTest, AModuleThatOneRankLacksIsNamed) {
  const LawResult result =
      of_modules({"1: ReLU(); 2: Tanh()", "1: ReLU(); 2: Tanh()", "1: ReLU()"});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].message,
            "the model has nothing where the other ranks have `2: Tanh()`");
}

TEST(EnvironmentTest, NRanksThatEachTrainAloneAreNamed) {
  EventStream stream(2);
  for (const std::int32_t rank : {0, 1}) stream.add(rank, EnvironmentEvent{.world = 1});
  const LawResult result = check("environment-bijective", stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "env-missing-solo");
  EXPECT_EQ(result.findings[0].ranks.size(), 2U);
}

TEST(EnvironmentTest, ARestartMayHaveAnotherWorld) {
  EventStream stream(3);
  for (const std::int32_t rank : {0, 1, 2}) stream.add(rank, EnvironmentEvent{.world = 3});
  for (const std::int32_t rank : {0, 1}) {
    stream.at(rank).attempt = 1;
    stream.add(rank, EnvironmentEvent{.world = 2});
  }
  EXPECT_EQ(check("environment-bijective", stream).verdict, Verdict::kHolds);
}

TEST(EnvironmentTest, RanksOnUnknownNodesMayShareNumbers) {
  EventStream stream(2);
  for (const std::int32_t rank : {0, 1})
    stream.add(rank, EnvironmentEvent{.world = 2, .local_rank = 0});
  EXPECT_EQ(check("environment-bijective", stream).verdict, Verdict::kHolds);
}

TEST(EnvironmentTest, ARestartMayPlaceRanksElsewhere) {
  Launched launched;
  launched.with(launched.healthy(3));
  for (const std::int32_t rank : {0, 1, 2, 3}) {
    launched.stream.at(rank).attempt = 1;
    EnvironmentEvent event = launched.healthy(rank);
    event.schema = 9;
    launched.add(rank, event);
  }
  EXPECT_EQ(check("environment-bijective", launched.stream).verdict, Verdict::kHolds);
}

/// Checkpoints of two ranks: each writes its part, rank 0 also what they share and the manifest.
struct Checkpoints {
  EventStream stream{2};

  void event(std::int32_t rank,
             SnapshotAction action,
             std::int64_t step,
             std::string_view detail,
             std::uint64_t digest = 0) {
    stream.add(
        rank,
        SnapshotEvent{
            .action = action, .step = step, .detail = stream.name(detail), .digest = digest});
  }

  void part(std::int32_t rank, std::int64_t step, const std::string& folder = "ckpt") {
    event(rank,
          SnapshotAction::kPart,
          step,
          folder + "/" + std::to_string(step) + "." + std::to_string(rank),
          static_cast<std::uint64_t>(100 * step + rank));
  }

  void save(std::int64_t step) {
    part(0, step);
    part(1, step);
    event(0, SnapshotAction::kPart, step, "ckpt/" + std::to_string(step) + ".model", 5);
    event(0, SnapshotAction::kSave, step, "ckpt");
  }

  void restart(std::int64_t found, std::string_view looked_in = "ckpt") {
    for (const std::int32_t rank : {0, 1}) {
      ++stream.at(rank).attempt;
      event(rank, SnapshotAction::kLoad, found, looked_in);
    }
  }

  LawResult judged() const { return check("checkpoint-whole", stream); }

  Finding only_finding() const {
    const LawResult result = judged();
    EXPECT_EQ(result.findings.size(), 1U);
    return result.findings.empty() ? Finding() : result.findings[0];
  }
};

TEST(CheckpointWholeTest, HoldsForWholeCheckpointsThatAreFoundAgain) {
  Checkpoints job;
  job.save(2);
  job.save(4);
  job.restart(4);
  job.event(1, SnapshotAction::kRead, 4, "ckpt/4.1", 401);
  job.save(6);
  job.restart(6);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

TEST(CheckpointWholeTest, APartInAnotherFolderIsMissing) {
  Checkpoints job;
  job.part(0, 2);
  job.part(1, 2, "ckpt-12:01");
  job.event(0, SnapshotAction::kPart, 2, "ckpt/2.model", 5);
  job.event(0, SnapshotAction::kSave, 2, "ckpt");
  EXPECT_EQ(job.only_finding().field, "folder");
  EXPECT_EQ(id_of(job.only_finding().cause), "ckpt-dir-clock");
  EXPECT_EQ(job.only_finding().ranks, std::vector<Rank>{Rank{1}});
}

TEST(CheckpointWholeTest, APublishedCheckpointHasAPartOfEveryRank) {
  Checkpoints job;
  job.part(0, 2);
  job.event(0, SnapshotAction::kSave, 2, "ckpt");
  EXPECT_EQ(job.only_finding().field, "parts");
  EXPECT_EQ(job.only_finding().ranks, std::vector<Rank>{Rank{1}});
}

TEST(CheckpointWholeTest, ASmallerWorldHasFewerParts) {
  Checkpoints job;
  job.save(2);
  job.stream.at(0).attempt = 1;
  job.stream.add(0, EnvironmentEvent{.world = 1});
  job.event(0, SnapshotAction::kLoad, 2, "ckpt");
  job.part(0, 4);
  job.event(0, SnapshotAction::kPart, 4, "ckpt/4.model", 5);
  job.event(0, SnapshotAction::kSave, 4, "ckpt");
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

TEST(CheckpointWholeTest, ALargerWorldHasMoreParts) {
  for (const bool whole : {true, false}) {
    Checkpoints job;
    job.stream = EventStream(3);
    job.save(2);
    for (const std::int32_t rank : {0, 1, 2}) {
      job.stream.at(rank).attempt = 1;
      job.stream.add(rank, EnvironmentEvent{.world = 3});
    }
    if (whole) job.part(2, 4);
    job.save(4);
    const LawResult result = check("checkpoint-whole", job.stream, {.n_ranks = 2});
    EXPECT_EQ(result.findings.size(), whole ? 0U : 1U);
    if (whole) continue;
    EXPECT_EQ(result.findings.at(0).ranks, std::vector<Rank>{Rank{2}});
  }
}

TEST(CheckpointWholeTest, CheckpointsThatFailAreReportedWithTheirReason) {
  Checkpoints job;
  job.save(2);
  EXPECT_EQ(job.judged().advice.size(), 0U);
  for (const std::int64_t step : {4, 6}) {
    job.event(0, SnapshotAction::kFail, step, "another rank could not write");
    job.event(1,
              SnapshotAction::kFail,
              step,
              "ckpt/" + std::to_string(step) + ".1: No space left on device");
  }
  const LawResult result = job.judged();
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-checkpoint-failed");
  EXPECT_EQ(result.advice[0].message,
            "2 checkpoints could not be written or read back; the first, of step 4: rank 0: "
            "another rank could not write; rank 1: ckpt/4.1: No space left on device. A restart "
            "continues from an older one, or from the start.");
}

TEST(CheckpointWholeTest, OneFileHasOneWriter) {
  Checkpoints job;
  for (const std::int32_t rank : {0, 1})
    job.event(rank, SnapshotAction::kPart, 2, "ckpt/2.model", 5);
  EXPECT_EQ(job.only_finding().field, "writer");
  EXPECT_EQ(id_of(job.only_finding().cause), "many-writers");
}

TEST(CheckpointWholeTest, ASecondWriterIsDetectedAfterACompleteCheckpointToo) {
  Checkpoints job;
  for (const std::int32_t rank : {0, 1}) {
    job.part(rank, 2);
    job.event(rank, SnapshotAction::kPart, 2, "ckpt/2.model", 5);
    job.event(rank, SnapshotAction::kSave, 2, "ckpt");
  }
  EXPECT_EQ(id_of(job.only_finding().cause), "many-writers");
}

TEST(CheckpointWholeTest, WhatIsReadIsWhatWasWritten) {
  Checkpoints job;
  job.save(2);
  job.restart(2);
  job.event(1, SnapshotAction::kRead, 2, "ckpt/2.1", 202);
  EXPECT_EQ(job.only_finding().field, "digest");
}

TEST(CheckpointWholeTest, APublishedCheckpointOutlivesACrash) {
  Checkpoints job;
  job.save(2);
  job.save(4);
  job.restart(2);
  job.save(3);
  job.restart(3);  // Step 4 is lost for good, and reported once.
  EXPECT_EQ(job.only_finding().field, "published");
  EXPECT_EQ(job.only_finding().step, 4);
  EXPECT_EQ(job.only_finding().attempt, 1);
}

TEST(CheckpointWholeTest, TheNewestCheckpointIsLoadedAndNotTheOneBefore) {
  Checkpoints job;
  job.save(3);
  job.save(4);
  job.restart(3);
  EXPECT_EQ(job.only_finding().field, "published");
  EXPECT_EQ(job.only_finding().step, 4);
}

TEST(CheckpointWholeTest, ARestartThatLooksInAnotherFolderIsNotOneThatReadTooEarly) {
  for (const std::string looked_in : {"ckpt", "checkpoint"}) {
    Checkpoints job;
    job.save(4);
    job.restart(-1, looked_in);
    const bool elsewhere = looked_in != "ckpt";
    EXPECT_EQ(id_of(job.only_finding().cause),
              elsewhere ? "resume-elsewhere" : "read-before-commit");
    EXPECT_EQ(job.only_finding().message.ends_with(" in ckpt; the restart looked in checkpoint"),
              elsewhere)
        << job.only_finding().message;
  }
}

TEST(CheckpointWholeTest, WhatWasNeverPublishedMayBeLost) {
  Checkpoints job;
  job.save(2);
  job.part(0, 4);  // The crash came in between.
  job.restart(2);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

TEST(CheckpointWholeTest, TrainingMayStartFromScratchOnPurpose) {
  Checkpoints job;
  job.save(2);
  for (const std::int32_t rank : {0, 1}) {
    ++job.stream.at(rank).attempt;
    job.event(rank, SnapshotAction::kFresh, -1, "ckpt");
  }
  job.save(1);
  job.restart(1);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

}  // namespace
}  // namespace lockstep
