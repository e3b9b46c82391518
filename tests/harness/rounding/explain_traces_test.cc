#include "lockstep/harness/rounding/explain_traces.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/sketch.h"

namespace lockstep {
namespace {

using Values = std::vector<float>;

constexpr float kLargeWhole = 16'777'216.0F;  // 2^24

struct Written {
  std::vector<Values> given;  ///< By rank.
  std::vector<Values> got;
  bool values = true;
  HookEffect hook = HookEffect::kMean;
};

/// A digest that differs where values do: enough for what compares digests.
std::uint64_t digest_of(const Values& values) {
  std::uint64_t digest = 1;
  for (const float value : values) {
    digest =
        digest * 1'000'003U + static_cast<std::uint64_t>(static_cast<std::int64_t>(value * 64));
  }
  return digest;
}

/// A trace of one step: `w` is averaged over all ranks.
class TraceWriter {
 public:
  explicit TraceWriter(const Written& written) : written_(written) {
    for (std::size_t r = 0; r < written.given.size(); ++r) write_rank(static_cast<std::int32_t>(r));
  }

  const MemoryTrace& trace() const { return trace_; }

 private:
  void add(std::int32_t rank, const EventBody& body) {
    const Position at{.wrapper = 0, .sync = 0};
    trace_.on_event({static_cast<Rank>(rank), index_++, {}, at, body}, *names_);
  }

  void add_gradient(std::int32_t rank, GradPoint point, const Values& values) {
    const std::vector<double> numbers(values.begin(), values.end());
    const std::vector<std::uint64_t> digests = {digest_of(values)};
    const std::vector<Sketch> sketches = {
        sketch_of(values.data(), std::ssize(values), DType::kF32)};
    const std::vector<std::int64_t> n_elems = {std::ssize(values)};
    const std::vector<std::uint8_t> undefined = {0};
    add(rank,
        GradEvent{.point = point,
                  .layout = layout_,
                  .digests = digests,
                  .sketches = sketches,
                  .n_elems = n_elems,
                  .undefined = undefined,
                  .dtype = DType::kF32});
    if (written_.values) {
      add(rank, ValueEvent{.tensor = name_, .point = value_point(point), .values = numbers});
    }
  }

  void write_rank(std::int32_t rank) {
    add(rank,
        WrapEvent{.params = layout_, .n_ranks = static_cast<std::int32_t>(written_.given.size())});
    if (written_.hook != HookEffect::kMean) add(rank, CommHookEvent{.effect = written_.hook});
    const auto r = static_cast<std::size_t>(rank);
    add_gradient(rank, GradPoint::kPre, written_.given[r]);
    add_gradient(rank, GradPoint::kPost, written_.got[r]);
  }

  Written written_;
  std::shared_ptr<NameTable> names_ = std::make_shared<NameTable>();
  NameId name_ = names_->intern("w");
  LayoutId layout_ = names_->intern_layout(std::vector<NameId>{name_});
  MemoryTrace trace_{names_};
  std::uint64_t index_ = 0;
};

std::vector<Values> on_all(std::size_t n_ranks, const Values& values) {
  return std::vector<Values>(n_ranks, values);
}

TracesExplanation explained(const Written& left, const Written& right) {
  return explain_traces(TraceWriter(left).trace(), TraceWriter(right).trace(), std::nullopt);
}

// (2^24 + 1 + 1) / 4 in two orders; the fourth contributes zeros.
const std::vector<Values> kGiven = {{kLargeWhole, 4}, {1, 4}, {1, 8}, {0, 0}};

TEST(ExplainTracesTest, EqualTracesAreEqual) {
  const Written one{kGiven, on_all(4, {kLargeWhole / 4, 4})};
  const TracesExplanation found = explained(one, one);
  EXPECT_EQ(found.verdict, RoundingVerdict::kEqual);
  EXPECT_EQ(found.parting, Parting::kNowhere);
  EXPECT_EQ(found.n_judged, 2);
}

TEST(ExplainTracesTest, AReductionInAnotherOrderIsRounding) {
  const TracesExplanation found = explained({kGiven, on_all(4, {kLargeWhole / 4, 4})},
                                            {kGiven, on_all(4, {(kLargeWhole + 2) / 4, 4})});
  EXPECT_EQ(found.verdict, RoundingVerdict::kNamedOrders) << traces_text(found);
  EXPECT_EQ(found.parting, Parting::kReduction);
  EXPECT_EQ(found.first->tensor, "w");
  EXPECT_EQ(found.first->kind, ResultKind::kMean);
  EXPECT_EQ(found.n_suspects, 0);
}

TEST(ExplainTracesTest, AHandWrittenSumNeedsNoWord) {
  const TracesExplanation found =
      explained({kGiven, on_all(4, {kLargeWhole, 16})}, {kGiven, on_all(4, {kLargeWhole + 2, 16})});
  EXPECT_EQ(found.verdict, RoundingVerdict::kNamedOrders) << traces_text(found);
  EXPECT_EQ(found.first->kind, ResultKind::kSum);
}

TEST(ExplainTracesTest, AResultWithoutARankIsImpossibleAndItsTraceIsNamed) {
  const TracesExplanation found = explained({kGiven, on_all(4, {kLargeWhole / 4, 4})},
                                            {kGiven, on_all(4, {kLargeWhole / 4, 2})});
  EXPECT_EQ(found.verdict, RoundingVerdict::kImpossible);
  ASSERT_EQ(found.suspects.size(), 1U);
  EXPECT_EQ(found.suspects[0].which, "the second trace");
  EXPECT_NE(traces_text(found).find("as if the contribution of rank 2 had been left out"),
            std::string::npos)
      << traces_text(found);
}

// Ranks of one run that got different results: the wrong one is judged, too.
TEST(ExplainTracesTest, EveryRanksResultIsJudged) {
  std::vector<Values> got = on_all(4, {kLargeWhole / 4, 4});
  got[3] = {kLargeWhole / 4, 5};
  const TracesExplanation found = explained({kGiven, got}, {kGiven, got});
  EXPECT_EQ(found.verdict, RoundingVerdict::kImpossible);
  EXPECT_EQ(found.n_suspects, 2);
}

TEST(ExplainTracesTest, WhereContributionsDifferTheReductionIsNotBlamed) {
  std::vector<Values> other = kGiven;
  other[1] = {2, 8};
  const TracesExplanation found = explained({kGiven, on_all(4, {kLargeWhole / 4, 4})},
                                            {other, on_all(4, {(kLargeWhole + 2) / 4, 5})});
  EXPECT_EQ(found.verdict, RoundingVerdict::kNotJudged);
  EXPECT_EQ(found.parting, Parting::kContributions);
  EXPECT_EQ(found.n_suspects, 0) << traces_text(found);
  EXPECT_NE(traces_text(found).find("they diverge before a reduction"), std::string::npos);
}

TEST(ExplainTracesTest, WithoutValuesSketchesShowALargeErrorAndNothingElse) {
  const Written healthy{{{1, 2, 3}, {5, 6, 7}}, on_all(2, {3, 4, 5}), false};
  Written wrong = healthy;
  wrong.got = on_all(2, {3, 4, 3.5F});  // Half of rank 1's 7, less a rank.
  EXPECT_EQ(explained(healthy, wrong).verdict, RoundingVerdict::kImpossible);
  Written near = healthy;
  near.got = on_all(2, {3, 4, 5.015625F});  // Less than what bf16 may round: not excluded.
  EXPECT_EQ(explained(healthy, near).verdict, RoundingVerdict::kNotJudged);
  EXPECT_EQ(explained(healthy, healthy).verdict, RoundingVerdict::kEqual);
  EXPECT_EQ(explained(healthy, healthy).n_judged, 0);
}

TEST(ExplainTracesTest, ValuesThatAreMissingAreAskedFor) {
  const Written left{kGiven, on_all(4, {kLargeWhole / 4, 4}), false};
  const Written right{kGiven, on_all(4, {(kLargeWhole + 2) / 4, 4}), false};
  const TracesExplanation found = explained(left, right);
  EXPECT_EQ(found.verdict, RoundingVerdict::kNotJudged);
  EXPECT_EQ(found.parting, Parting::kReduction);
  EXPECT_NE(traces_text(found).find("record both runs with `lockstep run --values`"),
            std::string::npos);
}

TEST(ExplainTracesTest, AHookThatComputesSomethingElseIsNotJudged) {
  const TracesExplanation found = explained({kGiven, on_all(4, {1, 2}), true, HookEffect::kOther},
                                            {kGiven, on_all(4, {3, 4}), true, HookEffect::kOther});
  EXPECT_EQ(found.verdict, RoundingVerdict::kNotJudged);
  EXPECT_EQ(found.n_suspects, 0);
}

// Results in 16 bits have a name; quantized ones have none, and are not accused.
TEST(ExplainTracesTest, AHookThatCompressesIsNotAccused) {
  const std::vector<Values> given = {{1.001F, 3}, {2.002F, 4}};
  const auto verdict = [&](const Values& got, HookEffect hook) {
    const Written one{given, on_all(2, got), true, hook};
    return explained(one, one).verdict;
  };
  EXPECT_EQ(verdict({1.5009765625F, 3.5F}, HookEffect::kRounded), RoundingVerdict::kOnlyIf);
  EXPECT_EQ(verdict({1.75F, 3.5F}, HookEffect::kRounded), RoundingVerdict::kEqual);
  EXPECT_EQ(verdict({1.75F, 3.5F}, HookEffect::kMean), RoundingVerdict::kImpossible);
}

TEST(ExplainTracesTest, ARankThatRecordedNothingLeavesItsReductionsUnjudged) {
  const TraceWriter whole({kGiven, on_all(4, {kLargeWhole / 4, 4})});
  MemoryTrace partial(whole.trace().shared_names());
  for (std::int32_t r = 0; r < 3; ++r) {
    for (const Event& event : whole.trace().events(static_cast<Rank>(r))) {
      partial.on_event(event, whole.trace().names());
    }
  }
  const TracesExplanation found = explain_traces(partial, partial, std::nullopt);
  EXPECT_EQ(found.n_judged, 0);
}

}  // namespace
}  // namespace lockstep
