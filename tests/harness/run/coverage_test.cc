// Rotating coverage: what it still finds, how soon, and what it says about what it leaves out.
#include <string>

#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

namespace lockstep::testing {

namespace {

constexpr std::int64_t kIn = 64;
constexpr std::int64_t kOut = 128;
constexpr std::int32_t kCoverage = 16;
constexpr std::int64_t kBegin = 3;  // The step after which something goes wrong.

/// What one rank does to its weights after step kBegin; heals = undoes after the next one.
struct Nudge {
  std::int64_t element = 0;
  bool heals = false;
};

void train(RankContext& context, std::int64_t steps, const Nudge* nudge) {
  Generator generator(1);
  nn::Linear model(context.runtime(), kIn, kOut, generator);
  DistributedDataParallel ddp(model, context.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.01});
  const Variable x(Tensor::full(context.runtime(), {4, kIn}, DType::kF32, 1.0 + context.rank()));
  const Tensor target = Tensor::full(context.runtime(), {4, kOut}, DType::kF32, 1.0);
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    mse_loss(ddp(x), target).backward();
    optimizer.step();
    if (nudge == nullptr || context.rank() != 1) continue;
    float& weight = model.weight().data().span<float>()[static_cast<std::size_t>(nudge->element)];
    if (step == kBegin) weight += 1.0F;
    if (step == kBegin + 1 && nudge->heals) weight -= 1.0F;
  }
}

Report report_of(const Nudge* nudge, std::int32_t coverage) {
  return run_ranks({.ranks = 3, .coverage = coverage},
                   [&](RankContext& context) { train(context, 24, nudge); })
      .report;
}

const LawResult& law_of(const Report& report, std::string_view id) {
  for (const LawResult& law : report.laws) {
    if (law.law == id) return law;
  }
  throw std::out_of_range(std::string(id));
}

}  // namespace

TEST(CoverageTest, AHealthyJobHoldsAndReportsWhatWasChecked) {
  const Report report = report_of(nullptr, kCoverage);

  ASSERT_TRUE(report.ok()) << render_text(report, false);
  const LawResult& law = law_of(report, "replicas-equal");
  ASSERT_EQ(law.advice.size(), 1U);
  EXPECT_EQ(law.advice[0].id, "A-coverage");
  EXPECT_NE(law.advice[0].message.find("1/16"), std::string::npos);
}

TEST(CoverageTest, FullDigestsSayNothingOfCoverage) {
  EXPECT_TRUE(law_of(report_of(nullptr, 1), "replicas-equal").advice.empty());
}

TEST(CoverageTest, ADifferenceThatLastsIsFoundWithinOneRoundWhereverItIs) {
  for (std::int64_t part = 0; part < kCoverage; ++part) {
    const Nudge nudge{.element = part * (kIn * kOut / kCoverage) + part};
    const Report report = report_of(&nudge, kCoverage);

    const LawResult& law = law_of(report, "replicas-equal");
    ASSERT_EQ(law.findings.size(), 1U) << "element " << nudge.element;
    EXPECT_EQ(law.findings[0].tensor, "weight");
    EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{1}});
    EXPECT_GT(*law.findings[0].step, kBegin);
    EXPECT_LE(*law.findings[0].step, kBegin + kCoverage);
    EXPECT_NE(law.findings[0].message.find("1/16"), std::string::npos);
  }
}

TEST(CoverageTest, FullDigestsFindItAtOnce) {
  const Nudge nudge{.element = 77};

  const Report report = report_of(&nudge, 1);

  EXPECT_EQ(*law_of(report, "replicas-equal").findings.at(0).step, kBegin + 1);
}

// The blind spot that A-coverage reports: the digests of the one step it lasts for may look
// elsewhere. A part in turn at that step shows it; the opposite part does not.
TEST(CoverageTest, ADifferenceThatHealsShowsOnlyIfItsPartIsInTurn) {
  constexpr std::int64_t kPart = kIn * kOut / kCoverage;
  const Nudge in_turn{.element = (kBegin + 1) * kPart, .heals = true};
  const Nudge elsewhere{.element = (kBegin + 9) * kPart, .heals = true};

  EXPECT_FALSE(law_of(report_of(&in_turn, kCoverage), "replicas-equal").findings.empty());
  EXPECT_TRUE(law_of(report_of(&elsewhere, kCoverage), "replicas-equal").findings.empty());
  EXPECT_FALSE(law_of(report_of(&elsewhere, 1), "replicas-equal").findings.empty());
}

}  // namespace lockstep::testing
