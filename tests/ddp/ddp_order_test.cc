// In which order DDP communicates: the grammar of docs/contract.md, launches, the rebuild.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniOptions;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;
using Buckets = std::vector<std::vector<std::int32_t>>;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

constexpr double kMiB = 1048576.0;

Texts after_constructor(const Texts& all) {
  return {
      std::find_if(
          all.begin(), all.end(), [](const std::string& t) { return t[0] == 'A' && t[1] == 'R'; }),
      all.end()};
}

TEST(DdpOrderTest, ABatchNormNetFollowsTheCallsOfPyTorch) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const auto matrix = [&](const char* name, const Shape& shape) {
      model.parameters.push_back(
          {name, Variable(Tensor::zeros(rank.runtime, shape, DType::kF32), true)});
    };
    matrix("0.weight", {8, 8});
    matrix("0.bias", {8});
    matrix("1.weight", {8});
    matrix("1.bias", {8});
    matrix("2.weight", {3, 8});
    matrix("2.bias", {3});
    model.buffer("1.running_mean", {0, 0, 0, 0, 0, 0, 0, 0});
    model.buffer("1.running_var", {1, 1, 1, 1, 1, 1, 1, 1});
    model.buffer("1.num_batches_tracked", {0}, DType::kI64);
    Ddp ddp(model.state(), rank.group, {});
    const auto loss = [&] {
      Variable total = sum(model.parameters[0].variable);
      for (std::size_t i = 1; i < 6; ++i) total = add(total, sum(model.parameters[i].variable));
      return total;
    };
    forward_backward(ddp, loss);
    ddp.before_forward(true);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts expected = {"AG i64[1]",
                          "B i64[16]",
                          "B f32[131]",
                          "B i64[1]",  // construction
                          "B f32[16]",
                          "B i64[1]",     // forward 0: buffers
                          "AR f32[115]",  // backward 0
                          "B i32[7]",
                          "B i32[1]",
                          "B f32[16]",
                          "B i64[1]"};  // rebuild, buffers
  EXPECT_EQ(collectives_of(*result.trace, 0), expected);
  EXPECT_EQ(collectives_of(*result.trace, 1), expected);
}

// Parameters of 1, 2 and 3 elements each in its own bucket: the count says which one was sent.
struct ThreeParameters {
  explicit ThreeParameters(Runtime& runtime) : model(runtime) {
    a = model.parameter("a", Values(1));
    b = model.parameter("b", Values(2));
    c = model.parameter("c", Values(3));
  }

  TinyModel model;
  Variable a;
  Variable b;
  Variable c;
};

DdpOptions one_each() { return {.bucket_cap_mb = 4 / kMiB, .find_unused_parameters = true}; }

// Buckets are c, b, a. Whatever becomes ready first, c is sent first.
TEST(DdpOrderTest, LaunchesInTheOrderOfIndicesWhateverIsReadyFirst) {
  for (const bool a_ready_first : {false, true}) {
    const MiniResult result = run_mini_world({}, [a_ready_first](MiniRank& rank) {
      ThreeParameters p(rank.runtime);
      Ddp ddp(p.model.state(), rank.group, one_each());
      EXPECT_EQ(ddp.buckets(), (Buckets{{2}, {1}, {0}}));
      // The term made last is differentiated first.
      forward_backward(ddp, [&] {
        const Variable first = a_ready_first ? flat_term(p.c, 1) : flat_term(p.a, 1);
        const Variable second = flat_term(p.b, 1);
        const Variable third = a_ready_first ? flat_term(p.a, 1) : flat_term(p.c, 1);
        return add(add(first, second), third);
      });
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    EXPECT_EQ(after_constructor(collectives_of(*result.trace, 0)),
              (Texts{"AR f32[3]", "AR f32[2]", "AR f32[1]", "AR i32[3]"}));
  }
}

// Counts a rank's posted all-reduces at the moment each gradient is ready; hooks added after the
// wrapper's fire after it.
class Watch final : public GradHook {
 public:
  explicit Watch(const std::int64_t& n_events) : n_events_(&n_events) {}

  void on_grad_ready(std::size_t /*index*/) override { counts.push_back(*n_events_); }

  std::vector<std::int64_t> counts;

 private:
  const std::int64_t* n_events_;
};

class PostCounter final : public EventSink {
 public:
  void on_event(const Event& event, const NameTable& /*names*/) override {
    const auto* collective = std::get_if<CollectiveEvent>(&event.body);
    if (collective != nullptr && collective->signature.op == CollectiveOp::kAllReduce &&
        collective->phase == CollectivePhase::kPosted) {
      ++n;
    }
  }

  std::int64_t n = 0;
};

std::vector<std::int64_t> launches_seen_by_hooks(bool a_ready_first) {
  std::vector<std::int64_t> counts;
  const MiniOptions options{.n_ranks = 1, .recorded = false};
  const MiniResult result = run_mini_world(options, [&](MiniRank& rank) {
    NameTable names;
    PostCounter counter;
    Recorder recorder(Rank{0}, rank.host, names, counter, {});
    rank.runtime.set_recorder(&recorder);
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, one_each());
    Watch watch(counter.n);
    for (const NamedVariable& parameter : ddp.parameters()) parameter.variable.add_hook(watch, 0);
    forward_backward(ddp, [&] {
      const Variable first = a_ready_first ? flat_term(p.c, 1) : flat_term(p.a, 1);
      const Variable second = flat_term(p.b, 1);
      const Variable third = a_ready_first ? flat_term(p.a, 1) : flat_term(p.c, 1);
      return add(add(first, second), third);
    });
    counts = watch.counts;
    rank.runtime.set_recorder(nullptr);
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return counts;
}

// The last launch comes with the used map, hence 4.
TEST(DdpOrderTest, LaunchesAsSoonAsAllEarlierBucketsAreFull) {
  EXPECT_EQ(launches_seen_by_hooks(false), (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(launches_seen_by_hooks(true), (std::vector<std::int64_t>{0, 0, 4}));
}

TEST(DdpOrderTest, RebuildsAtTheSecondForwardInTheOrderOfReadiness) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, {.bucket_cap_mb = 4 / kMiB});
    const auto loss = [&] {
      return total({flat_term(p.b, 2.0 * rank.rank),
                    flat_term(p.c, 2.0 * rank.rank),
                    flat_term(p.a, 2.0 * rank.rank)});
    };
    EXPECT_EQ(ddp.buckets(), (Buckets{{0, 1, 2}}));
    forward_backward(ddp, loss);
    EXPECT_EQ(ddp.buckets(), (Buckets{{0, 1, 2}}));
    forward_backward(ddp, loss);
    EXPECT_EQ(ddp.buckets(), (Buckets{{0}, {2}, {1}}));  // a was ready first, b last.
    forward_backward(ddp, loss);
    EXPECT_EQ(grad_of(p.c), (Values{3, 3, 3}));  // Three steps of mean 1, never zeroed.
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(after_constructor(collectives_of(*result.trace, 1)),
            (Texts{"AR f32[6]",
                   "B i32[4]",
                   "B i32[3]",
                   "AR f32[1]",
                   "AR f32[3]",
                   "AR f32[2]",
                   "AR f32[1]",
                   "AR f32[3]",
                   "AR f32[2]"}));
}

TEST(DdpOrderTest, RankZeroDecidesTheOrderOfTheRebuild) {
  for (const bool as_view : {false, true}) {
    const MiniResult result = run_mini_world({.n_ranks = 3}, [as_view](MiniRank& rank) {
      ThreeParameters p(rank.runtime);
      Ddp ddp(p.model.state(),
              rank.group,
              {.bucket_cap_mb = 4 / kMiB, .gradient_as_bucket_view = as_view});
      const auto loss = [&] {
        const Variable first = rank.rank == 0 ? flat_term(p.b, 3) : flat_term(p.a, 3);
        const Variable second = flat_term(p.c, 3);
        const Variable third = rank.rank == 0 ? flat_term(p.a, 3) : flat_term(p.b, 3);
        return add(add(first, second), third);
      };
      forward_backward(ddp, loss);
      for (const NamedVariable& parameter : ddp.parameters()) {
        for (float& value : parameter.variable.grad().span<float>()) value = 0.0F;
      }
      forward_backward(ddp, loss);
      EXPECT_EQ(ddp.buckets(), (Buckets{{0}, {2}, {1}}));
      EXPECT_EQ(grad_of(p.b), (Values{3, 3}));
    });
    ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
  }
}

TEST(DdpOrderTest, AForwardWithoutGradDoesNotRebuildButOneUnderNoSyncDoes) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, {.bucket_cap_mb = 4 / kMiB});
    const auto loss = [&] {
      return total({flat_term(p.a, 1), flat_term(p.b, 1), flat_term(p.c, 1)});
    };
    forward_backward(ddp, loss);
    {
      const NoGradGuard no_grad(rank.runtime);
      ddp.before_forward(false);
      ddp.after_forward(loss());
    }
    EXPECT_EQ(ddp.buckets().size(), 1U);
    const NoSync no_sync(ddp);
    ddp.before_forward(true);
    EXPECT_EQ(ddp.buckets().size(), 3U);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpOrderTest, TrainingOnlyUnderNoSyncNeverRebuilds) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, {.bucket_cap_mb = 4 / kMiB});
    const NoSync no_sync(ddp);
    for (int step = 0; step < 3; ++step) {
      forward_backward(ddp, [&] {
        return total({flat_term(p.a, 1), flat_term(p.b, 1), flat_term(p.c, 1)});
      });
    }
    EXPECT_EQ(ddp.buckets().size(), 1U);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_TRUE(after_constructor(collectives_of(*result.trace, 0)).empty());
}

TEST(DdpOrderTest, TheLastBucketCanBeTheSmallOne) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    rank.host.variables.emplace("DDP_SET_LAST_BUCKET_CAP", "1");
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, {.first_bucket_bytes = 4});
    const auto loss = [&] {
      return total({flat_term(p.a, 1), flat_term(p.b, 1), flat_term(p.c, 1)});
    };
    forward_backward(ddp, loss);
    ddp.before_forward(true);
    EXPECT_EQ(ddp.buckets(), (Buckets{{1, 2}, {0}}));  // Without it: {2} and {1, 0}.
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// The negative twin of "same order on all ranks": buckets of equal sizes filled with other
// parameters. Counts agree, so only the layout in the signature differs.
TEST(DdpOrderTest, BucketsFilledInAnotherOrderAreAMismatch) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const bool swapped = rank.rank == 1;
    const Variable first = model.parameter(swapped ? "b" : "a", {0});
    const Variable second = model.parameter(swapped ? "a" : "b", {0});
    Ddp ddp(model.state(), rank.group, {.init_sync = false});
    forward_backward(ddp, [&] { return total({flat_term(first, 1), flat_term(second, 2)}); });
  });
  EXPECT_NE(result.error(0).find("in ddp.backward: mismatch"), std::string::npos);
}

TEST(DdpOrderTest, ADifferentCapOnOneRankIsOverruledByRankZero) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    ThreeParameters p(rank.runtime);
    Ddp ddp(p.model.state(), rank.group, {.bucket_cap_mb = rank.rank == 0 ? 4 / kMiB : 25.0});
    const auto loss = [&] {
      return total({flat_term(p.a, 1), flat_term(p.b, 1), flat_term(p.c, 1)});
    };
    forward_backward(ddp, loss);
    forward_backward(ddp, loss);
    EXPECT_EQ(ddp.buckets(), (Buckets{{2}, {1}, {0}}));
  });
  ASSERT_TRUE(result.ok()) << result.error(1);
}

}  // namespace
}  // namespace lockstep
