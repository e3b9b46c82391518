// Restarts that go on where their files say that training was, and those that do not.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

/// One rank that saves after epochs of two steps each, and is started again.
struct Restarted {
  EventStream stream{1};
  bool shuffles = true;

  void train(std::int32_t epoch) {
    stream.add(0,
               EpochEvent{.split = stream.name("train"),
                          .generator_key = 40U + static_cast<std::uint64_t>(epoch),
                          .shuffle = shuffles});
    for (int i = 0; i < 2; ++i) {
      stream.add(0, StepEvent{});
      ++stream.at(0).opt;
    }
  }

  void snapshot(SnapshotAction action, std::string_view path, std::uint64_t digest) {
    stream.add(0,
               SnapshotEvent{.action = action,
                             .step = stream.at(0).opt,
                             .detail = stream.name(path),
                             .digest = digest});
  }

  /// Two epochs, each saved, and the end of the process.
  void first_attempt() {
    for (const std::int32_t epoch : {0, 1}) {
      train(epoch);
      snapshot(SnapshotAction::kPart, "snapshot.pt", 10U + static_cast<std::uint64_t>(epoch));
    }
    stream.at(0) = {.attempt = 1};
  }

  std::string advice() const {
    const LawResult result = check("checkpoint-whole", stream, {.n_ranks = 1});
    EXPECT_EQ(result.findings.size(), 0U);
    return result.advice.empty() ? "none"
                                 : result.advice.front().id + ": " + result.advice.front().message;
  }
};

TEST(ResumesTest, AFileThatIsNotLookedForIsNamedWithItsSteps) {
  Restarted job;
  job.first_attempt();
  job.train(0);

  EXPECT_EQ(
      job.advice(),
      "A-steps-again: restart 1 does not read snapshot.pt, which contains 4 steps, and starts 1 "
      "epoch before it: these steps are repeated. Does it look for a different file name?");
}

TEST(ResumesTest, ARestartThatLooksForAnotherNameDoesNotReadTheFile) {
  for (const std::string_view looked_in : {"other", "folder", "fold"}) {
    Restarted job;
    job.train(0);
    job.snapshot(SnapshotAction::kPart, "folder/model.pt", 10);
    job.train(1);
    job.snapshot(SnapshotAction::kPart, "folder/model.pt", 11);
    job.stream.at(0) = {.attempt = 1};
    job.stream.add(
        0,
        SnapshotEvent{
            .action = SnapshotAction::kLoad, .step = -1, .detail = job.stream.name(looked_in)});
    job.train(0);
    EXPECT_EQ(job.advice() == "none", looked_in == "folder") << looked_in << job.advice();
  }
}

TEST(ResumesTest, AFileThatIsReadAndNotFollowedIsNamed) {
  Restarted job;
  job.first_attempt();
  job.snapshot(SnapshotAction::kRead, "snapshot.pt", 11);
  job.train(0);

  EXPECT_EQ(job.advice(),
            "A-steps-again: restart 1 reads snapshot.pt, which contains 4 steps, and starts 1 "
            "epoch before it: these epochs are repeated, with the weights that came after them.");
}

TEST(ResumesTest, ARankThatBeginsAgainIsSeenBesideOneThatGoesOn) {
  for (const std::int32_t again : {0, 1}) {
    EventStream stream{2};
    const auto train = [&](std::int32_t rank, std::uint64_t key) {
      stream.add(rank,
                 EpochEvent{.split = stream.name("train"), .generator_key = key, .shuffle = true});
      stream.add(rank, StepEvent{});
      ++stream.at(rank).opt;
    };
    for (const std::uint64_t key : {40U, 41U}) {
      for (const std::int32_t rank : {0, 1}) train(rank, key);
    }
    const SnapshotEvent saved{.action = SnapshotAction::kPart,
                              .step = 2,
                              .detail = stream.name("snapshot.pt"),
                              .digest = 11};
    stream.add(0, saved);
    SnapshotEvent read = saved;
    read.action = SnapshotAction::kRead;
    for (const std::int32_t rank : {0, 1}) {
      stream.at(rank) = {.attempt = 1};
      stream.add(rank, read);
      train(rank, rank == again ? 40 : 42);
    }
    const LawResult result = check("checkpoint-whole", stream, {.n_ranks = 2});
    ASSERT_EQ(result.advice.size(), 1U) << "rank " << again;
    EXPECT_NE(result.advice[0].message.find("starts 1 epoch before it"), std::string::npos);
  }
}

TEST(ResumesTest, ARestartThatGoesOnIsQuiet) {
  for (const std::int32_t epoch :
       {1, 2}) {  // 1: the file may have been written in the middle of it.
    Restarted job;
    job.first_attempt();
    job.snapshot(SnapshotAction::kRead, "snapshot.pt", 11);
    job.train(epoch);
    EXPECT_EQ(job.advice(), "none") << epoch;
  }
}

TEST(ResumesTest, AnOlderFileThatIsReadOnPurposeIsFollowedFromItsOwnEpoch) {
  Restarted job;
  job.train(0);
  job.snapshot(SnapshotAction::kPart, "best.pt", 10);
  job.train(1);
  job.snapshot(SnapshotAction::kPart, "last.pt", 11);
  job.stream.at(0) = {.attempt = 1};
  job.snapshot(SnapshotAction::kRead, "best.pt", 10);
  job.train(0);
  EXPECT_EQ(job.advice(), "none");
}

TEST(ResumesTest, FilesOfOthersAndAFreshStartAreQuiet) {
  Restarted pretrained;
  pretrained.snapshot(SnapshotAction::kRead, "pretrained.pt", 99);
  pretrained.train(0);
  EXPECT_EQ(pretrained.advice(), "none");

  Restarted fresh;
  fresh.first_attempt();
  fresh.snapshot(SnapshotAction::kFresh, "ckpt", 0);
  fresh.train(0);
  EXPECT_EQ(fresh.advice(), "none");

  Restarted unsaved;
  unsaved.train(0);
  unsaved.stream.at(0) = {.attempt = 1};
  unsaved.train(0);
  EXPECT_EQ(unsaved.advice(), "none");
}

TEST(ResumesTest, WithoutEpochsTheSameBytesAtTheSameStepSayIt) {
  for (const std::uint64_t digest : {10U, 77U}) {
    Restarted job{.shuffles = false};
    job.train(0);
    job.snapshot(SnapshotAction::kPart, "snapshot.pt", 10);
    job.stream.at(0) = {.attempt = 1};
    job.train(0);
    job.snapshot(SnapshotAction::kPart, "snapshot.pt", digest);
    EXPECT_EQ(job.advice() == "none", digest != 10) << job.advice();
  }
}

}  // namespace
}  // namespace lockstep
