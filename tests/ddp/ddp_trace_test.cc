// What DDP leaves in a trace.
#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::flat_term;
using testing::forward_backward;
using testing::MiniOptions;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::total;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

// Everything but collectives, as "kind" or "grad.<point>".
Texts kinds_of(const MemoryTrace& trace, std::int32_t rank) {
  Texts kinds;
  for (const Event& event : trace.events(Rank{rank})) {
    if (std::holds_alternative<CollectiveEvent>(event.body)) continue;
    const auto* grad = std::get_if<GradEvent>(&event.body);
    kinds.push_back(grad == nullptr ? std::string(name_of(kind_of(event.body)))
                                    : "grad." + std::string(name_of(grad->point)));
  }
  return kinds;
}

const GradEvent& grad_event(const MemoryTrace& trace, std::int32_t rank, GradPoint point) {
  for (const Event& event : trace.events(Rank{rank})) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad != nullptr && grad->point == point) return *grad;
  }
  throw std::runtime_error("no such gradient event");
}

const Event& last(const MemoryTrace& trace, std::int32_t rank) {
  return trace.events(Rank{rank}).back();
}

// sm64 of f32 [0] and [1], from the definition of the digest.
constexpr std::uint64_t kDigestOfZero = 0xe220a8397b1dcdafULL;
constexpr std::uint64_t kDigestOfOne = 0xfd695a1b70dc1235ULL;

TEST(DdpTraceTest, AStepIsRecordedInOrder) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("fc.w", {0});
    model.parameter("fc.frozen", Values{1}, DType::kF32, false);
    model.buffer("bn.mean", {0});
    Ddp ddp(model.state(), rank.group, {});
    EXPECT_EQ(ddp.wrapper(), 0);
    forward_backward(ddp, [&] { return flat_term(w, 2.0 * rank.rank); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(kinds_of(*result.trace, 1),
            (Texts{"wrap",
                   "configuration",
                   "param",
                   "buffer",
                   "bucket",
                   "param",
                   "buffer",
                   "forward",
                   "grad.inc",
                   "grad.pre",
                   "grad.post",
                   "backward",
                   "param",
                   "buffer"}));

  const MemoryTrace& trace = *result.trace;
  const auto& wrap = std::get<WrapEvent>(trace.events(Rank{1})[0].body);
  const auto names = [&](LayoutId layout) {
    Texts texts;
    for (const NameId name : trace.names().layout(layout))
      texts.emplace_back(trace.names().text(name));
    return texts;
  };
  EXPECT_EQ(names(wrap.params), (Texts{"fc.w"}));
  EXPECT_EQ(names(wrap.frozen), (Texts{"fc.frozen"}));
  EXPECT_EQ(names(wrap.buffers), (Texts{"bn.mean"}));
  EXPECT_EQ(wrap.buffer_policy, BufferPolicy::kBroadcast0);
  EXPECT_EQ(wrap.bucket_cap_bytes, 26'214'400);
  EXPECT_EQ(wrap.n_ranks, 2);
  EXPECT_EQ(last(trace, 1).at.sync, 0);
  EXPECT_EQ(last(trace, 1).at.micro, 0);
  EXPECT_EQ(last(trace, 1).at.wrapper, 0);
  const std::span<const Event> events = trace.events(Rank{1});
  EXPECT_TRUE(std::get<BackwardEvent>(events[events.size() - 3].body).reduced);
}

// Two forwards after each rank wrote its own number into both buffers.
MiniResult with_own_buffers(const DdpOptions& options, const MiniOptions& world = {}) {
  return run_mini_world(world, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    const Variable queue = model.buffer("queue", {0});
    const Variable mean = model.buffer("bn.running_mean", {0});
    Ddp ddp(model.state(), rank.group, options);
    for (const Variable& buffer : {queue, mean}) {
      buffer.data().span<float>()[0] = static_cast<float>(rank.rank);
    }
    forward_backward(ddp, [&] { return flat_term(w, 1); });
    forward_backward(ddp, [&] { return flat_term(w, 1); });
  });
}

// What this rank's forwards found other than it should be. The result owns what the events show.
std::vector<Event> found_on(std::int32_t rank, const MiniResult& result) {
  EXPECT_TRUE(result.ok()) << result.error(0);
  std::vector<Event> found;
  for (const Event& event : result.trace->events(Rank{rank})) {
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state != nullptr && state->point == StatePoint::kFound) found.push_back(event);
  }
  return found;
}

TEST(DdpTraceTest, WhatRankZerosBuffersReplaceIsRecordedOnceWithoutRunningStatistics) {
  const MiniResult result = with_own_buffers({});
  const std::vector<Event> found = found_on(1, result);
  ASSERT_EQ(found.size(), 1U);
  const auto& state = std::get<StateEvent>(found[0].body);
  EXPECT_EQ(state.kind, StateKind::kBuffer);
  ASSERT_EQ(state.digests.size(), 1U) << "each rank's running mean is its own";
  EXPECT_EQ(state.digests[0], kDigestOfOne) << "as it was before";
  EXPECT_EQ(found[0].at.sync, 0);
  EXPECT_TRUE(found_on(0, result).empty());
}

TEST(DdpTraceTest, NoBufferIsReplacedWhereItStaysLocal) {
  EXPECT_TRUE(found_on(1, with_own_buffers({.broadcast_buffers = false})).empty());
  EXPECT_TRUE(found_on(1, with_own_buffers({.ignored = {"queue"}})).empty());
}

TEST(DdpTraceTest, BuffersAreNotLookedAtWhereStatesAreNotRecordedWhole) {
  MiniOptions parts;
  parts.record.coverage = 2;
  EXPECT_TRUE(found_on(1, with_own_buffers({}, parts)).empty());
  MiniOptions none;
  none.record.states = false;
  EXPECT_TRUE(found_on(1, with_own_buffers({}, none)).empty());
}

TEST(DdpTraceTest, GradientsAreSeenBeforeAndAfterTheReduction) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    forward_backward(ddp, [&] { return flat_term(a, 2.0 * rank.rank); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);

  const GradEvent& inc = grad_event(*result.trace, 0, GradPoint::kInc);
  const GradEvent& pre = grad_event(*result.trace, 0, GradPoint::kPre);
  const GradEvent& post = grad_event(*result.trace, 0, GradPoint::kPost);
  EXPECT_EQ(inc.digests[0],
            kDigestOfZero);  // Rank 0's own gradient is 0, the mean of 0 and 2 is 1.
  EXPECT_EQ(pre.digests[0], kDigestOfZero);
  EXPECT_EQ(post.digests[0], kDigestOfOne);
  EXPECT_EQ(post.sketches[0].l1, 1.0);
  for (const GradEvent* event : {&inc, &pre, &post}) {
    ASSERT_EQ(event->undefined.size(), 1U);
    EXPECT_EQ(event->undefined[0], 0b10);  // b has none.
    EXPECT_EQ(event->digests[1], 0U);
    EXPECT_EQ(event->n_elems[0], 1);
  }
}

/// Adds 1 to a gradient without the wrapper's knowledge.
class Meddler final : public GradHook {
 public:
  explicit Meddler(const Variable& leaf) : leaf_(leaf) {}

  void on_grad_ready(std::size_t /*index*/) override { leaf_.grad().span<float>()[0] += 1.0F; }

 private:
  Variable leaf_;
};

// A gradient that nothing could touch is digested once; one that a hook wrote to, once more.
TEST(DdpTraceTest, AHookBetweenContributionAndReductionShowsInTheTrace) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Meddler meddler(a);
    a.add_hook(meddler, 0);  // Before the wrapper's own.
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] { return flat_term(a, 0.0); });
    a.remove_hook(meddler);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);

  EXPECT_EQ(grad_event(*result.trace, 0, GradPoint::kInc).digests[0], kDigestOfZero);
  EXPECT_EQ(grad_event(*result.trace, 0, GradPoint::kPre).digests[0], kDigestOfOne);
}

// The gradient that an earlier backward left is digested, though its memory was once a
// contribution.
TEST(DdpTraceTest, AGradientWithoutANewContributionIsDigestedAsItIs) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable b = model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    {
      const NoSync no_sync(ddp);
      forward_backward(ddp, [&] { return total({flat_term(a, 0.0), flat_term(b, 0.0)}); });
    }
    a.grad().span<float>()[0] = 1.0F;
    forward_backward(ddp, [&] { return flat_term(b, 0.0); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);

  EXPECT_EQ(grad_event(*result.trace, 0, GradPoint::kPre).digests[0], kDigestOfOne);
}

TEST(DdpTraceTest, NothingIsLeftOfAContributionThatTheNextBackwardDoesNotMake) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable b = model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    forward_backward(ddp, [&] { return total({flat_term(a, 1.0), flat_term(b, 1.0)}); });
    forward_backward(ddp, [&] { return flat_term(a, 1.0); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);

  std::vector<GradEvent> contributions;
  for (const Event& event : result.trace->events(Rank{0})) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad != nullptr && grad->point == GradPoint::kInc) contributions.push_back(*grad);
  }
  ASSERT_EQ(contributions.size(), 2U);
  EXPECT_EQ(contributions[0].undefined[0], 0);
  EXPECT_EQ(contributions[0].digests[1], kDigestOfOne);
  EXPECT_EQ(contributions[1].undefined[0], 0b10);
  EXPECT_EQ(contributions[1].digests[0], kDigestOfOne);
  EXPECT_EQ(contributions[1].digests[1], 0U);
  EXPECT_EQ(contributions[1].sketches[1], Sketch{});
  EXPECT_EQ(contributions[1].n_elems[1], 0);
}

TEST(DdpTraceTest, PositionsCountForwardsAndSynchronisingForwards) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    {
      const NoSync no_sync(ddp);
      forward_backward(ddp, [&] { return flat_term(w, 1); });
    }
    forward_backward(ddp, [&] { return flat_term(w, 1); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  std::vector<std::array<std::int32_t, 3>> forwards;  // sync, micro, synchronizing
  std::vector<bool> reduced;
  for (const Event& event : result.trace->events(Rank{0})) {
    if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      forwards.push_back({event.at.sync, event.at.micro, forward->synchronizing ? 1 : 0});
    }
    if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
      reduced.push_back(backward->reduced);
    }
  }
  EXPECT_EQ(forwards, (std::vector<std::array<std::int32_t, 3>>{{-1, 0, 0}, {0, 1, 1}}));
  EXPECT_EQ(reduced, (std::vector<bool>{false, true}));
}

TEST(DdpTraceTest, ABackwardAroundTheWrapperIsSeenAsAContribution) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    flat_term(w, 1).backward();
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(kinds_of(*result.trace, 0),
            (Texts{"wrap", "configuration", "param", "bucket", "grad.inc", "backward", "param"}));
}

TEST(DdpTraceTest, TheEndIsRecordedUnlessAnExceptionEndsTheWrapper) {
  const auto last_point = [](bool fails) {
    const MiniResult result = run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
      TinyModel model(rank.runtime);
      model.parameter("w", {0});
      const Ddp ddp(model.state(), rank.group, {});
      if (fails) throw std::runtime_error("on purpose");
    });
    const auto* state = std::get_if<StateEvent>(&last(*result.trace, 0).body);
    return state == nullptr ? std::string_view("none") : name_of(state->point);
  };
  EXPECT_EQ(last_point(false), "end");
  EXPECT_NE(last_point(true), "end");
}

TEST(DdpTraceTest, StateIsRecordedAgainAfterALoad) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    ddp.before_forward(true);
    ddp.before_forward(true);
    ddp.note_loaded();
    ddp.before_forward(true);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(kinds_of(*result.trace, 0),
            (Texts{"wrap",
                   "configuration",
                   "param",
                   "bucket",
                   "param",
                   "forward",
                   "forward",
                   "param",
                   "param",
                   "forward",
                   "param"}));
}

TEST(DdpTraceTest, BasesAreRecordedOnRequest) {
  MiniOptions options;
  options.record.grad_base = true;
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    const NoSync no_sync(ddp);
    w.set_grad(Tensor::full(rank.runtime, {1}, DType::kF32, 1.0));
    forward_backward(ddp, [&] { return flat_term(w, 0); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(grad_event(*result.trace, 0, GradPoint::kBase).digests[0], kDigestOfOne);
  EXPECT_EQ(grad_event(*result.trace, 0, GradPoint::kInc).digests[0], kDigestOfZero);
}

TEST(DdpTraceTest, SwitchedOffNothingCostlyIsRecorded) {
  MiniOptions options;
  options.record = {.grad_local = false,
                    .grad_post = false,
                    .sketches = false,
                    .states = false,
                    .collectives = false};
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] { return flat_term(w, 1); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts expected = {"wrap", "configuration", "bucket", "forward", "backward"};
  EXPECT_EQ(kinds_of(*result.trace, 0), expected);
  EXPECT_EQ(result.trace->events(Rank{0}).size(), expected.size());
}

// Recorded or not, a job computes the same bits and communicates the same.
void train_three_steps(bool recorded, std::vector<Values>& grads) {
  const MiniResult result =
      run_mini_world({.n_ranks = 3, .recorded = recorded}, [&](MiniRank& rank) {
        TinyModel model(rank.runtime);
        const Variable a = model.parameter("a", {0, 0});
        const Variable b = model.parameter("b", {0});
        Ddp ddp(model.state(), rank.group, {});
        EXPECT_EQ(ddp.wrapper(), recorded ? 0 : -1);
        for (int step = 0; step < 3; ++step) {
          forward_backward(ddp, [&] {
            return total({testing::term(a, {0.1, 0.3 * rank.rank}), testing::term(b, {0.7})});
          });
        }
        if (rank.rank == 1) grads.push_back(testing::grad_of(a));
      });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpTraceTest, RecordingChangesNothing) {
  std::vector<Values> grads;
  for (const bool recorded : {false, true}) train_three_steps(recorded, grads);
  EXPECT_EQ(grads[0], grads[1]);
}

// Two models on one rank, as a GAN has them: each wrapper has its own position.
// Laws exempt ignored parameters by name: an optimizer's events must not call them otherwise.
TEST(DdpTraceTest, IgnoredParametersHaveNamesToo) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable kept = model.parameter("fc.w", {0});
    const Variable ignored = model.parameter("fc.own", {0});
    Ddp inner(model.state(), rank.group, {.ignored = {"fc.own"}});
    const auto name_of_variable = [&](const Variable& variable) {
      return std::string(rank.runtime.recorder()->names().text(variable.state().name));
    };
    EXPECT_EQ(name_of_variable(kept), "fc.w");
    EXPECT_EQ(name_of_variable(ignored), "fc.own");
    EXPECT_EQ(ignored.state().wrapper, inner.wrapper());

    Ddp outer(model.state(), rank.group, {.ignored = {"fc.w"}});
    EXPECT_EQ(ignored.state().wrapper, outer.wrapper());
    EXPECT_EQ(kept.state().wrapper, inner.wrapper());  // Who replicates it names it.
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpTraceTest, TwoWrappersKeepTheirPositionsApart) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel g(rank.runtime);
    const Variable w = g.parameter("g.w", {0});
    TinyModel d(rank.runtime);
    d.parameter("d.w", {0});
    Ddp first(g.state(), rank.group, {});
    Ddp second(d.state(), rank.group, {});
    EXPECT_EQ(second.wrapper(), 1);
    EXPECT_EQ(w.state().wrapper, 0);
    forward_backward(first, [&] { return flat_term(w, 1); });
    EXPECT_EQ(rank.runtime.recorder()->position(0).sync, 0);
    EXPECT_EQ(rank.runtime.recorder()->position(1).sync, -1);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

}  // namespace
}  // namespace lockstep
