// What is drawn of a trace; its format is checked on many scenarios by
// tests/harness/cli/perfetto_test.py.
#include "lockstep/formats/perfetto.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using testing::EventStream;

/// The time of the entry that holds `text`, in microseconds.
double time_of(const std::string& json, const std::string& text) {
  const std::size_t at = json.find(text);
  if (at == std::string::npos) return -1.0;
  const std::size_t line = json.rfind('\n', at);
  return std::stod(json.substr(json.find("\"ts\":", line) + 5));
}

std::size_t count(const std::string& json, const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = json.find(text); at != std::string::npos; at = json.find(text, at + 1)) ++n;
  return n;
}

TEST(PerfettoTest, AStepHoldsForwardBackwardAndOptimizer) {
  EventStream stream(1);
  stream.add(0, ForwardEvent{});
  stream.add(0, GradEvent{.point = GradPoint::kInc});
  stream.add(0, BackwardEvent{.reduced = true});
  stream.add(0, StepEvent{.lr = 0.5});
  const Timeline timeline = render_perfetto(stream.trace());
  EXPECT_EQ(timeline.counts.n_slices, 4U);
  EXPECT_NE(timeline.json.find(R"("ts":0.000,"dur":0.030,"cat":"compute","name":"step 0")"),
            std::string::npos)
      << timeline.json;
  EXPECT_NE(timeline.json.find(R"("ts":0.000,"dur":0.010,"cat":"compute","name":"forward")"),
            std::string::npos);
  EXPECT_NE(timeline.json.find(R"("ts":0.010,"dur":0.010,"cat":"compute","name":"backward")"),
            std::string::npos);
  EXPECT_NE(timeline.json.find(R"("ts":0.020,"dur":0.010,"cat":"compute","name":"optimizer")"),
            std::string::npos);
}

/// A trace without times: rank 1 posts its side of a barrier as its third event.
MemoryTrace untimed_barrier() {
  MemoryTrace trace(std::make_shared<NameTable>());
  trace.ensure_ranks(2);
  CollectiveEvent call;
  for (const std::int32_t rank : {0, 1}) {
    std::uint64_t index = 0;
    const auto add = [&](const EventBody& body) {
      trace.on_event({Rank{rank}, index++, {}, {}, body}, trace.names());
    };
    for (std::int32_t i = 0; i < 2 * rank; ++i) add(LogEvent{});
    call.phase = CollectivePhase::kPosted;
    add(call);
    call.phase = CollectivePhase::kCompleted;
    add(call);
  }
  return trace;
}

TEST(PerfettoTest, WithoutTimesACallEndsAfterItsLastPost) {
  const Timeline timeline = render_perfetto(untimed_barrier());
  EXPECT_EQ(timeline.counts.n_calls, 2U);
  EXPECT_EQ(time_of(timeline.json, R"("ph":"b","pid":0)"), 0.0);
  EXPECT_EQ(time_of(timeline.json, R"("ph":"b","pid":1)"), 2.0);
  EXPECT_EQ(time_of(timeline.json, R"("ph":"e","pid":0)"), 3.0);
  EXPECT_EQ(time_of(timeline.json, R"("ph":"e","pid":1)"), 3.0);
}

TEST(PerfettoTest, ACallThatNeverEndsIsClosedAtTheEndOfItsRank) {
  EventStream stream(1);
  stream.add(0, CollectiveEvent{});
  stream.add(0, EndEvent{.outcome = EndOutcome::kStuck});
  const Timeline timeline = render_perfetto(stream.trace());
  EXPECT_EQ(count(timeline.json, R"("ph":"b")"), 1U);
  EXPECT_EQ(count(timeline.json, R"("ph":"e")"), 1U);
  EXPECT_NE(timeline.json.find("never completed"), std::string::npos);
}

TEST(PerfettoTest, NotesArePinnedToTheCallOrStepTheyAreAbout) {
  EventStream stream(2);
  for (const std::int32_t step : {0, 1}) {
    stream.at(1).opt = step;
    stream.add(1, ForwardEvent{});
    stream.add(1, CollectiveEvent{.seq = step});
    stream.add(1, StepEvent{});
  }
  std::vector<TimelineNote> notes(2);
  notes[0] = {.rank = Rank{1}, .title = "replicas-equal", .text = "a \"b\"", .step = 0};
  notes[1] = {.rank = Rank{1}, .title = "progress", .text = "", .group = 0, .seq = 1};
  const Timeline timeline = render_perfetto(stream.trace(), notes);
  EXPECT_EQ(time_of(timeline.json, "finding: replicas-equal"), 0.020);
  EXPECT_NE(timeline.json.find(R"("text":"a \"b\"")"), std::string::npos);
  EXPECT_EQ(time_of(timeline.json, "finding: progress"), 0.040);
}

TEST(PerfettoTest, ANoteOfTheFirstStepIsNotPinnedToWhatComesAfterAllSteps) {
  EventStream stream(1);
  for (const std::int32_t step : {0, 1}) {
    stream.at(0) = {.wrapper = 0, .opt = step};
    stream.add(0, ForwardEvent{});
    stream.add(0, StepEvent{});
  }
  stream.at(0) = {};  // Of no wrapper, so step 0 as far as it is known.
  stream.add(0, EndEvent{});
  const std::vector<TimelineNote> notes = {
      {.rank = Rank{0}, .title = "init-equal", .text = "", .step = 0}};
  const Timeline timeline = render_perfetto(stream.trace(), notes);
  EXPECT_EQ(time_of(timeline.json, "finding: init-equal"), 0.010);
}

}  // namespace
}  // namespace lockstep
