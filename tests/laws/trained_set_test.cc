// trained-set on streams written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

LawResult trained_set(const DdpJob& job) { return check("trained-set", job.stream); }

/// What a rank's optimizer uses: a gradient of `name`, or none.
void use(DdpJob& job, std::int32_t rank, const char* name, bool defined, double value = 1.0) {
  const std::uint64_t digests[] = {defined ? std::bit_cast<std::uint64_t>(value) : 0};
  const std::uint8_t undefined[] = {static_cast<std::uint8_t>(defined ? 0 : 1)};
  const LayoutId layout = job.stream.layout({name});
  job.stream.add(
      rank,
      GradEvent{
          .point = GradPoint::kUsed, .layout = layout, .digests = digests, .undefined = undefined});
  job.stream.add(rank, StepEvent{.lr = 0.5, .layout = layout});
  ++job.stream.at(rank).opt;
}

DdpJob healthy() {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < 3; ++step) job.train_step({1.0, 2.0});
  for (const std::int32_t rank : {0, 1}) job.end(rank);
  return job;
}

TEST(TrainedSetTest, HoldsWhereTheOptimizerHasWhatTheWrapperReduces) {
  const LawResult result = trained_set(healthy());
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 6);
  EXPECT_TRUE(result.advice.empty());
}

TEST(TrainedSetTest, WithoutStepsItSaysWhatToAdd) {
  DdpJob job(2);
  job.wrap();
  const LawResult result = trained_set(job);
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("steps"), std::string::npos);
}

/// The wrapper reduces; `alive`: the optimizer of other parameters has gradients of its own.
DdpJob with_foreign_optimizer(bool alive) {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < 3; ++step) {
    for (const std::int32_t rank : {0, 1}) {
      job.wrapper = 0;
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      job.stream.at(rank).wrapper = -1;
      use(job, rank, "parameter.0", alive);
    }
  }
  return job;
}

TEST(TrainedSetTest, NamesAnOptimizerOfOtherParameters) {
  const LawResult result = trained_set(with_foreign_optimizer(false));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-stale");
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].ranks.size(), 2U);
}

/// The wrapper's forward goes on, but its backward reaches `n_new` parameters that no wrapper has.
DdpJob with_new_parameters(double own_of_rank_1, bool comes_back) {
  DdpJob job(2);
  job.wrap();
  job.train_step({1.0, 3.0});
  for (const std::int32_t rank : {0, 1}) {
    job.wrapper = 0;
    job.forward(rank);
    job.stream.at(rank).wrapper = -1;
    use(job, rank, "parameter.0", true, rank == 1 ? own_of_rank_1 : 1.0);
  }
  job.wrapper = 0;
  if (comes_back) job.train_step({1.0, 3.0});
  return job;
}

TEST(TrainedSetTest, NamesTheFirstStepThatTrainsOtherParameters) {
  const LawResult result = trained_set(with_new_parameters(3.0, false));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "param-replaced");
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(result.findings[0].ranks.size(), 2U);
}

// A head that is trained in turn with the wrapper, and one whose gradients the program averages.
TEST(TrainedSetTest, OtherParametersMayHaveTheirTurn) {
  EXPECT_TRUE(trained_set(with_new_parameters(3.0, true)).findings.empty());
  EXPECT_TRUE(trained_set(with_new_parameters(1.0, false)).findings.empty());
}

/// A job of two ranks whose wrapper has a body and a head; what becomes of each.
struct Displaced {
  bool reaches_head = false;  ///< The backward passes the wrapper's head by, or not.
  bool head_optimized = false;
  double own_of_rank_1 =
      3.0;  ///< Its gradient of the parameter that no wrapper has; rank 0's is 1.
  std::initializer_list<std::string_view> outside = {"parameter.1"};
  bool is_used = true;  ///< What no wrapper has gets gradients.
};

DdpJob with_displaced(const Displaced& given) {
  DdpJob job(2);
  const LayoutId both = job.stream.layout({"body", "head"});
  const LayoutId outside = job.stream.layout(given.outside);
  const std::vector<std::uint64_t> digests(2, std::bit_cast<std::uint64_t>(1.0));
  const std::vector<std::uint8_t> bits = {static_cast<std::uint8_t>(given.reaches_head ? 0 : 2)};
  for (const std::int32_t rank : {0, 1}) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.params = both, .n_ranks = 2});
    for (int step = 0; step < 2; ++step) {
      job.wrapper = 0;
      job.forward(rank);
      job.stream.add(
          rank,
          GradEvent{
              .point = GradPoint::kInc, .layout = both, .digests = digests, .undefined = bits});
      job.stream.add(rank, BackwardEvent{.reduced = true});
      use(job, rank, "body", true);
      if (given.head_optimized) use(job, rank, "head", false);
      job.stream.at(rank).wrapper = -1;
      job.stream.at(rank).opt = step;
      const double own = rank == 1 ? given.own_of_rank_1 : 1.0;
      const std::vector<std::uint64_t> used(given.outside.size(),
                                            std::bit_cast<std::uint64_t>(own));
      const std::vector<std::uint8_t> none = {static_cast<std::uint8_t>(given.is_used ? 0 : 1)};
      job.stream.add(
          rank,
          GradEvent{
              .point = GradPoint::kUsed, .layout = outside, .digests = used, .undefined = none});
      job.stream.add(rank, StepEvent{.lr = 0.5, .layout = outside});
    }
  }
  return job;
}

TEST(TrainedSetTest, NamesAParameterThatAnotherOfNoWrapperStandsInFor) {
  const LawResult result = trained_set(with_displaced({}));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "param-replaced");
  EXPECT_EQ(result.findings[0].tensor, "head");
  EXPECT_EQ(result.findings[0].field, "reduced");
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

// A head whose gradient the program averages; one that is trained; one that an optimizer has; two of
// no wrapper beside it.
TEST(TrainedSetTest, AnIdleParameterIsNotReplacedByWhateverIsTrainedBesideIt) {
  EXPECT_TRUE(trained_set(with_displaced({.own_of_rank_1 = 1.0})).findings.empty());
  EXPECT_TRUE(trained_set(with_displaced({.reaches_head = true})).findings.empty());
  EXPECT_TRUE(trained_set(with_displaced({.head_optimized = true})).findings.empty());
  EXPECT_TRUE(
      trained_set(with_displaced({.outside = {"parameter.1", "parameter.2"}})).findings.empty());
}

// A network that is not trained on purpose, beside one that is.
TEST(TrainedSetTest, GradientsThatNoOptimizerWantsAreAdviceOnly) {
  const LawResult result = trained_set(with_foreign_optimizer(true));
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-not-optimised");
}

/// One optimizer steps for two wrappers, and has not `scale`, which the first one reduces.
DdpJob with_an_optimizer_of_two_wrappers(bool alive) {
  DdpJob job(2);
  const std::array<LayoutId, 2> wrapped = {job.stream.layout({"weight", "scale"}),
                                           job.stream.layout({"bias"})};
  const std::array<LayoutId, 2> used = {job.stream.layout({"weight"}), wrapped[1]};
  const std::vector<std::uint64_t> digests(2, std::bit_cast<std::uint64_t>(1.0));
  const std::vector<std::uint8_t> defined = {0};
  const std::vector<std::uint8_t> used_bits = {static_cast<std::uint8_t>(alive ? 0 : 1)};
  for (const std::int32_t rank : {0, 1}) {
    for (const LayoutId params : wrapped) {
      job.at(rank);
      job.stream.add(rank, WrapEvent{.params = params, .n_ranks = 2});
      ++job.wrapper;
    }
    for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) {
      const auto at = static_cast<std::size_t>(job.wrapper);
      job.forward(rank);
      job.stream.add(rank,
                     GradEvent{.point = GradPoint::kInc,
                               .layout = wrapped[at],
                               .digests = {digests.data(), 2 - at},
                               .undefined = defined});
      job.stream.add(rank,
                     GradEvent{.point = GradPoint::kUsed,
                               .layout = used[at],
                               .digests = {digests.data(), 1},
                               .undefined = used_bits});
      job.stream.add(rank, StepEvent{.lr = 0.5, .layout = used[at]});
    }
    job.wrapper = 0;
  }
  return job;
}

TEST(TrainedSetTest, AnOptimizerOfSeveralWrappersUsesTheirGradients) {
  const LawResult result = trained_set(with_an_optimizer_of_two_wrappers(true));
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-not-optimised");
  EXPECT_NE(result.advice[0].message.find("`scale`"), std::string::npos);
}

TEST(TrainedSetTest, AnOptimizerOfSeveralWrappersIsStaleWhereNoneHasAGradient) {
  const LawResult result = trained_set(with_an_optimizer_of_two_wrappers(false));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-stale");
  EXPECT_EQ(result.findings[0].tensor, "scale");
}

/// An optimizer has a wrapper's body and a head of no wrapper, which is the wrapper's own or an old one.
DdpJob with_a_head_of_no_wrapper(bool is_used, bool head_optimized) {
  return with_displaced(
      {.reaches_head = true, .head_optimized = head_optimized, .is_used = is_used});
}

TEST(TrainedSetTest, NamesAHeadThatTheOptimizerHasAnOldOneOf) {
  const LawResult result = trained_set(with_a_head_of_no_wrapper(false, false));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-stale");
  EXPECT_EQ(result.findings[0].tensor, "head");
  EXPECT_EQ(result.findings[0].message,
            "the optimizer holds parameters that never get a gradient, and 1 wrapped parameter "
            "that gets one is in no optimizer");
  EXPECT_TRUE(trained_set(with_a_head_of_no_wrapper(true, false)).findings.empty());
  EXPECT_TRUE(trained_set(with_a_head_of_no_wrapper(false, true)).findings.empty());
}

/// What a wrapper reduces and no optimizer has; at the end it is `left`.
DdpJob with_a_weight_of_no_optimizer(double left, StatePoint point) {
  DdpJob job = with_foreign_optimizer(true);
  for (const std::int32_t rank : {0, 1}) {
    job.wrapper = 0;
    job.state(rank, StateKind::kParam, point, left);
  }
  return job;
}

TEST(TrainedSetTest, AParameterThatHasChangedByTheEndIsTrainedUnderWhateverName) {
  EXPECT_TRUE(trained_set(with_a_weight_of_no_optimizer(2.0, StatePoint::kEnd)).advice.empty());
  EXPECT_EQ(trained_set(with_a_weight_of_no_optimizer(1.0, StatePoint::kEnd)).advice.size(), 1U);
  EXPECT_EQ(trained_set(with_a_weight_of_no_optimizer(2.0, StatePoint::kForward)).advice.size(),
            1U);
}

// Ranks in step come to a law at once; rank 1's weight is another one from the start.
TEST(TrainedSetTest, EachRankIsComparedWithItsOwnBeginning) {
  DdpJob job(2);
  job.weight(1) = 2.0;
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.stream.at(rank).wrapper = -1;
    use(job, rank, "parameter.0", false);
    job.state(rank, StatePoint::kEnd);
  }
  const LawResult result = testing::check_together("trained-set", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

/// Beside a wrapper's step another trains a parameter that no wrapper has.
DdpJob with_strays(double own_of_rank_1, bool has_wrapper = true, bool synchronizes = true) {
  DdpJob job(2);
  if (has_wrapper) job.wrap(synchronizes);
  for (int step = 0; step < 2; ++step) {
    job.wrapper = 0;
    if (has_wrapper) job.train_step({1.0, 3.0});
    for (const std::int32_t rank : {0, 1}) {
      job.at(rank);
      job.stream.at(rank).wrapper = -1;
      use(job, rank, "backbone", true, rank == 1 ? own_of_rank_1 : 1.0);
    }
  }
  return job;
}

TEST(TrainedSetTest, ParametersOfNoWrapperThatDriftApartAreAdvice) {
  const LawResult result = trained_set(with_strays(3.0));
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-unwrapped");
  EXPECT_NE(result.advice[0].message.find("1 parameter outside every wrapper (first: `backbone`)"),
            std::string::npos);
}

TEST(TrainedSetTest, WhereTheProgramReducesByItselfTheyAreToBeReducedWithTheRest) {
  const LawResult result = trained_set(with_strays(3.0, true, false));
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-unwrapped");
  EXPECT_EQ(
      result.advice[0].message,
      "1 parameter outside the manual reduction (first: `backbone`) is trained by each rank's own "
      "gradients. Reduce it with the rest, unless it should differ between ranks.");
}

// Gradients that the program averages by itself; programs that do without wrappers.
TEST(TrainedSetTest, ParametersOfNoWrapperAreNoMatterWhereRanksAgreeOrNothingIsWrapped) {
  EXPECT_TRUE(trained_set(with_strays(1.0)).advice.empty());
  EXPECT_TRUE(trained_set(with_strays(3.0, false)).advice.empty());
}

/// `weight` is reduced, `late` was frozen when it was wrapped. Rank 1 uses `factor` times rank 0's
/// gradient of it.
DdpJob with_frozen(bool trained, double factor) {
  DdpJob job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.at(rank);
    job.stream.add(
        rank,
        WrapEvent{.params = job.layout(), .frozen = job.stream.layout({"late"}), .n_ranks = 2});
  }
  for (int step = 0; step < 2; ++step) {
    for (const std::int32_t rank : {0, 1}) {
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      use(job, rank, "weight", true);
      use(job, rank, "late", trained && step == 1, rank == 1 ? factor : 1.0);
    }
  }
  return job;
}

TEST(TrainedSetTest, NamesAParameterThatWasUnfrozenAfterWrapping) {
  const LawResult result = trained_set(with_frozen(true, 3.0));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "unfreeze-after-wrap");
  EXPECT_EQ(result.findings[0].tensor, "late");
}

TEST(TrainedSetTest, FrozenParametersMayBeInTheOptimizer) {
  EXPECT_EQ(trained_set(with_frozen(false, 1.0)).verdict, Verdict::kHolds);
}

// The program may reduce them by itself.
TEST(TrainedSetTest, UnfrozenParametersWithEqualGradientsAreFine) {
  EXPECT_EQ(trained_set(with_frozen(true, 1.0)).verdict, Verdict::kHolds);
}

/// Windows of four contributions; each epoch has `per_epoch` of them.
struct Accumulating {
  explicit Accumulating(std::int64_t n) : per_epoch(n) { job.wrap(); }

  void clear(std::int32_t rank) {
    job.at(rank);
    job.stream.add(rank, ZeroGradEvent{.to_none = true, .layout = job.layout()});
  }

  enum class Rest : std::uint8_t { kStepped, kDropped, kCarried };

  DdpJob run(Rest rest) {
    for (const std::int32_t rank : {0, 1}) {
      std::int64_t n_open = 0;
      for (std::int32_t epoch = 0; epoch < 3; ++epoch) {
        job.at(rank).epoch = epoch;
        if (rest != Rest::kCarried || epoch == 0) clear(rank);
        if (rest != Rest::kCarried) n_open = 0;
        for (std::int64_t i = 0; i < per_epoch; ++i) {
          job.forward(rank, n_open == 3);
          job.grad(rank, GradPoint::kInc, 1.0);
          ++n_open;
          const bool last = i + 1 == per_epoch && rest == Rest::kStepped;
          if ((i + 1) % 4 != 0 && !last) continue;
          job.step(rank, 4.0);
          clear(rank);
          n_open = 0;
        }
      }
      job.end(rank);
    }
    return std::move(job);
  }

  DdpJob job{2};
  std::int64_t per_epoch;
};

TEST(TrainedSetTest, NamesTheRestOfAnEpochThatEntersNoStep) {
  const LawResult result = trained_set(Accumulating(5).run(Accumulating::Rest::kDropped));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "partial-window");
  EXPECT_NE(result.findings[0].message.find("1 contribution at the end of an epoch"),
            std::string::npos)
      << result.findings[0].message;
}

TEST(TrainedSetTest, NamesTheRestOfAnEpochThatLeaksIntoTheNext) {
  const LawResult result = trained_set(Accumulating(6).run(Accumulating::Rest::kCarried));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "partial-window");
}

TEST(TrainedSetTest, AShorterLastWindowIsFine) {
  for (const std::int64_t per_epoch : {4, 5, 8}) {
    const LawResult result = trained_set(Accumulating(per_epoch).run(Accumulating::Rest::kStepped));
    EXPECT_EQ(result.verdict, Verdict::kHolds) << per_epoch;
  }
}

// A generator's step reaches the discriminator too, which forgets that before its own step.
TEST(TrainedSetTest, GradientsDroppedInEveryStepAreDroppedOnPurpose) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    for (int step = 0; step < 4; ++step) {
      job.at(rank);
      job.stream.add(rank, ZeroGradEvent{.to_none = true, .layout = job.layout()});
      for (int part = 0; part < 2; ++part) {  // Real, then generated samples.
        job.forward(rank);
        job.reduce(rank, 1.0, 1.0, 1.0);
      }
      job.step(rank, 2.0);
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);  // The generator's loss.
    }
    job.end(rank);
  }
  EXPECT_EQ(trained_set(job).verdict, Verdict::kHolds);
}

/// Steps whose gradients are cleared before they are used: to nothing, or to zeros.
DdpJob cleared(bool to_none, int n_healthy) {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < n_healthy; ++step) job.train_step({1.0, 3.0});
  for (int step = 0; step < 3; ++step) {
    for (const std::int32_t rank : {0, 1}) {
      job.forward(rank);
      job.reduce(rank, rank == 0 ? 1.0 : 3.0, rank == 0 ? 1.0 : 3.0, 2.0);
      job.stream.add(rank, ZeroGradEvent{.to_none = to_none, .layout = job.layout()});
      job.grad(rank, GradPoint::kUsed, 0.0, to_none);
      job.stream.add(rank, StepEvent{.lr = 1.0, .layout = job.layout()});
      ++job.at(rank).opt;
    }
  }
  return job;
}

TEST(TrainedSetTest, NamesGradientsThatAreClearedBeforeEveryStep) {
  for (const bool to_none : {true, false}) {
    const LawResult result = trained_set(cleared(to_none, 0));
    ASSERT_EQ(result.findings.size(), 1U) << to_none;
    EXPECT_EQ(id_of(result.findings[0].cause), "cleared-before-step");
    EXPECT_EQ(result.findings[0].field, "used");
    EXPECT_EQ(result.findings[0].step, 0);
    EXPECT_EQ(result.findings[0].ranks.size(), 2U);
  }
}

// A step that warms the optimizer up, or one whose gradients a program drops on purpose.
TEST(TrainedSetTest, SomeStepsMayHaveNothingToUse) {
  for (const bool to_none : {true, false}) {
    EXPECT_EQ(trained_set(cleared(to_none, 1)).verdict, Verdict::kHolds) << to_none;
  }
}

// What is cleared before the backward pass is last step's.
TEST(TrainedSetTest, ClearingBeforeTheBackwardPassIsTheRule) {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < 3; ++step) {
    for (const std::int32_t rank : {0, 1}) {
      job.at(rank);
      job.stream.add(rank, ZeroGradEvent{.layout = job.layout()});
      job.forward(rank);
      job.reduce(rank, 0.0, 0.0, 0.0);  // The loss is flat here.
      job.step(rank, 0.0);
    }
  }
  EXPECT_EQ(trained_set(job).verdict, Verdict::kHolds);
}

}  // namespace
}  // namespace lockstep
