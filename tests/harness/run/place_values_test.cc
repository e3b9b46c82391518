// The values of a finding.
#include "lockstep/harness/run/place_values.h"

#include <cmath>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using testing::EventStream;

constexpr float kThird = 1.0F / 3.0F;

/// Two ranks after two steps: `weight` has these elements after the second one on each rank.
std::shared_ptr<const MemoryTrace> trained(const std::vector<std::vector<double>>& by_rank,
                                           std::int64_t n_elems = 2) {
  EventStream stream(static_cast<std::int32_t>(by_rank.size()));
  const std::vector<std::uint64_t> digests = {1};
  const std::vector<std::int64_t> sizes = {n_elems};
  for (const std::int32_t step : {0, 1}) {
    for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
      stream.at(rank) = {.wrapper = 0, .opt = step};
      stream.add(rank,
                 GradEvent{.layout = stream.layout({"weight"}),
                           .digests = digests,
                           .n_elems = sizes,
                           .dtype = DType::kF32});
      const std::vector<double> before = {7.0, 8.0};
      stream.add(
          rank,
          ValueEvent{.tensor = stream.name("weight"),
                     .point = ValuePoint::kStep,
                     .values = step == 0 ? before : by_rank[static_cast<std::size_t>(rank)]});
    }
  }
  auto copy = std::make_shared<MemoryTrace>(stream.trace().shared_names());
  stream.play(*copy);
  return copy;
}

/// replicas-equal says that `weight` differs on rank 1 after the second step.
Report accuses_rank_1() {
  Finding finding;
  finding.law = "replicas-equal";
  finding.message = "differs";
  finding.event = "step";
  finding.tensor = "weight";
  finding.step = 1;
  finding.ranks = {Rank{1}};
  Report report;
  report.laws.push_back({.law = "replicas-equal", .verdict = Verdict::kBroken});
  report.laws.back().findings.push_back(finding);
  return report;
}

Finding explained(const std::shared_ptr<const MemoryTrace>& trace) {
  Report report = accuses_rank_1();
  add_values([&] { return trace; }, *trace, report);
  return report.laws[0].findings[0];
}

TEST(PlaceValuesTest, NameTheFirstElementThatDiffersBothValuesAndTheirDistance) {
  const double next = std::nextafter(kThird, 1.0F);
  const Finding finding = explained(trained({{1.0, kThird}, {1.0, next}, {1.0, kThird}}));
  EXPECT_EQ(finding.element, 1);
  EXPECT_EQ(finding.message,
            "differs; that element is 0.33333337 on rank 1 and 0.33333334 on rank 0, 1 ulp of f32 "
            "apart");
}

TEST(PlaceValuesTest, DistancesCrossZero) {
  const double least = std::nextafter(0.0F, 1.0F);
  const Finding finding = explained(trained({{least, 0.0}, {-least, 0.0}}));
  EXPECT_NE(finding.message.find("2 ulps of f32 apart"), std::string::npos) << finding.message;
}

TEST(PlaceValuesTest, FarAndInfiniteValuesHaveNoDistance) {
  for (const double other : {1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    const Finding finding = explained(trained({{0.0, 0.0}, {other, 0.0}}));
    EXPECT_EQ(finding.element, 0);
    EXPECT_EQ(finding.message.find("ulp"), std::string::npos) << finding.message;
  }
}

TEST(PlaceValuesTest, AFindingThatTheRepetitionDoesNotShowStaysAsItWas) {
  const Finding finding = explained(trained({{1.0, 2.0}, {1.0, 2.0}}));
  EXPECT_EQ(finding.element, std::nullopt);
  EXPECT_EQ(finding.message, "differs");
}

TEST(PlaceValuesTest, RepeatOnceForAllFindingsAndNotForNone) {
  const auto trace = trained({{1.0, 2.0}, {3.0, 2.0}});
  int n_runs = 0;
  const auto repeat = [&] {
    ++n_runs;
    return trace;
  };
  Report none;
  add_values(repeat, *trace, none);
  EXPECT_EQ(n_runs, 0);
  Report two = accuses_rank_1();
  two.laws[0].findings.push_back(two.laws[0].findings[0]);
  add_values(repeat, *trace, two);
  EXPECT_EQ(n_runs, 1);
  EXPECT_EQ(two.laws[0].findings[1].element, 0);
}

TEST(PlaceValuesTest, RunsWhoseValuesFillTheMemoryAreNotRepeated) {
  const auto trace = trained({{1.0, 2.0}, {3.0, 2.0}}, kMostValueBytes);
  Report report = accuses_rank_1();
  add_values(
      [&] {
        ADD_FAILURE() << "was repeated";
        return trace;
      },
      *trace,
      report);
  EXPECT_EQ(report.laws[0].findings[0].element, std::nullopt);
}

TEST(PlaceValuesTest, ScenarioRunsSayThemOnlyWhenAsked) {
  const Scenario scenario =
      load_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/zoo/replica_drift.toml", "", {}).value();
  for (const bool explain : {false, true}) {
    RunChoices choices;
    choices.explain = explain;
    const ScenarioResult result = std::move(run_scenario(scenario, choices)).value();
    const std::string text = render_text(result.report, false);
    EXPECT_EQ(text.find("1 ulp of f32 apart") != std::string::npos, explain) << text;
  }
}

}  // namespace
}  // namespace lockstep
