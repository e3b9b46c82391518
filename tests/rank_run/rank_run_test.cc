// What leaves a rank's program decides its last event, and whose failure it was.
#include "lockstep/rank_run/rank_run.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "lockstep/comm/comm_status.h"
#include "lockstep/comm/loopback_group.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/trace/memory_trace.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::PlainRuntime;

/// One rank by itself, recorded.
struct Stage {
  Stage() { rt.runtime().set_recorder(&recorder); }

  ~Stage() { rt.runtime().set_recorder(nullptr); }

  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  Stage(Stage&&) = delete;
  Stage& operator=(Stage&&) = delete;

  /// Plays `body` and returns what left it, or null.
  std::exception_ptr play(const std::function<void(RankContext&)>& body,
                          const bool* stuck = nullptr) {
    RankRun run(&recorder, failure, stuck);
    RankContext context(Rank{0}, 1, rt.runtime(), *group);
    try {
      run.play(body, context);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const Event& last() const { return trace.events(Rank{0}).back(); }

  const EndEvent& end() const { return std::get<EndEvent>(last().body); }

  std::string detail() const { return std::string(names->text(end().detail)); }

  PlainRuntime rt;
  std::shared_ptr<NameTable> names = std::make_shared<NameTable>();
  MemoryTrace trace{names};
  Recorder recorder{Rank{0}, rt.runtime().host(), *names, trace, {}};
  std::unique_ptr<ProcessGroup> group = make_loopback_group(rt.runtime());
  FailureOrigin failure = FailureOrigin::kNone;
};

template <typename Exception>
Exception caught(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Exception& found) {
    return found;
  }
}

TEST(RankRunTest, AProgramThatReturnsHasEndedWell) {
  Stage stage;
  EXPECT_EQ(stage.play([](RankContext&) {}), nullptr);
  EXPECT_EQ(stage.end().outcome, EndOutcome::kOk);
  EXPECT_EQ(stage.detail(), "");
  EXPECT_EQ(stage.failure, FailureOrigin::kNone);
}

TEST(RankRunTest, AnExceptionOfTheProgramIsItsOwnFailureInItsOwnWords) {
  Stage stage;
  const auto left = stage.play([](RankContext&) { throw std::logic_error("no such layer"); });
  EXPECT_STREQ(caught<std::logic_error>(left).what(), "no such layer");
  EXPECT_EQ(stage.end().outcome, EndOutcome::kException);
  EXPECT_EQ(stage.detail(), "no such layer");
  EXPECT_EQ(stage.failure, FailureOrigin::kOwn);
}

TEST(RankRunTest, AFailedCollectiveIsTheGroupsFailure) {
  Stage stage;
  const auto left = stage.play(
      [](RankContext&) { throw CommError(CommStatus::kTimedOut, Signature{}, "no rank came"); });
  const auto error = caught<CommError>(left);
  EXPECT_EQ(stage.end().outcome, EndOutcome::kException);
  EXPECT_EQ(stage.detail(), error.what());
  EXPECT_EQ(stage.failure, FailureOrigin::kOfGroup);
}

TEST(RankRunTest, ARoundingSaysTheStepOfTheFirstWrapper) {
  Stage stage;
  const auto left = stage.play([&](RankContext&) {
    stage.recorder.position(stage.recorder.open_wrapper()).opt = 7;
    throw InexactOperation("div rounded");
  });
  EXPECT_STREQ(caught<InexactOperation>(left).what(), "step 7: div rounded");
  EXPECT_EQ(stage.detail(), "step 7: div rounded");
  EXPECT_EQ(stage.failure, FailureOrigin::kOwn);
}

TEST(RankRunTest, ARoundingBeforeAnyWrapperHasNoStep) {
  Stage stage;
  stage.play([](RankContext&) { throw InexactOperation("div rounded"); });
  EXPECT_EQ(stage.detail(), "div rounded");
}

TEST(RankRunTest, ARankEndedFromOutsideHasNotFailedItself) {
  Stage stage;
  const bool stuck = false;
  const auto left = stage.play(
      [](RankContext&) { throw RankKilled("rank 1 failed", EndReason::kOtherFailed); }, &stuck);
  EXPECT_EQ(caught<RankKilled>(left).reason(), "rank 1 failed");
  EXPECT_EQ(stage.end().outcome, EndOutcome::kKilled);
  EXPECT_EQ(stage.end().reason, EndReason::kOtherFailed);
  EXPECT_EQ(stage.detail(), "rank 1 failed");
  EXPECT_EQ(stage.failure, FailureOrigin::kNone);
}

TEST(RankRunTest, ARankTakenDownBecauseNoneCanContinueIsStuck) {
  Stage stage;
  bool stuck = false;
  stage.play(
      [&](RankContext&) {
        stuck = true;  // Found out while the program runs.
        throw RankKilled("stuck", EndReason::kLivelock);
      },
      &stuck);
  EXPECT_EQ(stage.end().outcome, EndOutcome::kStuck);
  EXPECT_EQ(stage.end().reason, EndReason::kLivelock);
}

TEST(RankRunTest, AnExceptionOfAnotherKindPassesUntouchedAndIsNamedAsThat) {
  Stage stage;
  const auto left = stage.play([](RankContext&) { throw 42; });
  EXPECT_EQ(caught<int>(left), 42);
  EXPECT_EQ(stage.end().outcome, EndOutcome::kException);
  EXPECT_EQ(stage.detail(), "an exception that is not a std::exception");
  EXPECT_EQ(stage.failure, FailureOrigin::kOwn);
}

TEST(RankRunTest, TheEndIsRecordedAfterWhatEndsWithTheProgram) {
  Stage stage;
  {
    RankRun run(&stage.recorder, stage.failure);
    RankContext context(Rank{0}, 1, stage.rt.runtime(), *stage.group);
    run.play([](RankContext&) {}, context);
    stage.recorder.record(LogEvent{});
  }
  const auto events = stage.trace.events(Rank{0});
  EXPECT_TRUE(std::holds_alternative<LogEvent>(events[events.size() - 2].body));
  EXPECT_EQ(stage.end().outcome, EndOutcome::kOk);
}

TEST(RankRunTest, WhereTheRankRunsIsRecordedBeforeItsProgramBegins) {
  Stage stage;
  stage.play([](RankContext& context) { context.runtime().recorder()->record(LogEvent{}); });
  const auto events = stage.trace.events(Rank{0});
  ASSERT_GE(events.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<EnvironmentEvent>(events.front().body));
  EXPECT_TRUE(std::holds_alternative<LogEvent>(events[events.size() - 2].body));
}

TEST(RankRunTest, ARunWhoseProgramNeverBeganHasAnEnd) {
  Stage stage;
  { const RankRun run(&stage.recorder, stage.failure); }
  EXPECT_EQ(stage.end().outcome, EndOutcome::kException);
}

TEST(RankRunTest, WithoutARecorderTheFailureIsStillKnown) {
  PlainRuntime rt;
  const auto group = make_loopback_group(rt.runtime());
  RankContext context(Rank{0}, 1, rt.runtime(), *group);
  FailureOrigin failure = FailureOrigin::kNone;
  RankRun run(nullptr, failure);
  EXPECT_THROW(run.play([](RankContext&) { throw std::runtime_error("out"); }, context),
               std::runtime_error);
  EXPECT_EQ(failure, FailureOrigin::kOwn);
}

RecordOptions nothing() {
  return {.grad_local = false,
          .grad_post = false,
          .grad_used = false,
          .states = false,
          .collectives = false,
          .samples = false};
}

TEST(RecordOptionsTest, AKeptTraceHoldsWhatNoLawAskedFor) {
  const RecordOptions record = record_options(nothing(), {.trace = true}, Rank{0});
  EXPECT_TRUE(record.grad_local && record.grad_post && record.grad_used);
  EXPECT_TRUE(record.states && record.collectives && record.samples);
}

TEST(RecordOptionsTest, WithoutATraceOnlyWhatTheLawsAskForIsComputed) {
  RecordOptions required = nothing();
  required.grad_post = required.touches = true;
  const RecordOptions record = record_options(required, {.trace = false, .coverage = 4}, Rank{0});
  EXPECT_TRUE(record.grad_post && record.touches);
  EXPECT_FALSE(record.grad_local || record.grad_used || record.states || record.collectives ||
               record.samples || record.values || record.step_values);
  EXPECT_EQ(record.coverage, 4);
}

TEST(RecordOptionsTest, OnlyRankZeroKeepsStepValues) {
  const Keeping keeping{.step_value_bytes = 100};
  EXPECT_TRUE(record_options({}, keeping, Rank{0}).step_values);
  EXPECT_EQ(record_options({}, keeping, Rank{0}).step_value_bytes, 100);
  EXPECT_FALSE(record_options({}, keeping, Rank{1}).step_values);
  EXPECT_FALSE(record_options({}, {}, Rank{0}).step_values);
}

}  // namespace
}  // namespace lockstep
